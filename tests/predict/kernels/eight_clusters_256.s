; What tkgen generated for gfx942 from eight_clusters.tk with BLOCK=256, without debug lines.
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.amdhsa_code_object_version 6
	.text
	.protected	_ZN14eight_clusters6kernelENS_7globalsE
	.globl	_ZN14eight_clusters6kernelENS_7globalsE
	.p2align	8
	.type	_ZN14eight_clusters6kernelENS_7globalsE,@function
_ZN14eight_clusters6kernelENS_7globalsE:
	s_load_dwordx16 s[4:19], s[0:1], 0x0
	s_waitcnt lgkmcnt(0)
	s_ashr_i32 s19, s2, 31
	s_lshr_b32 s19, s19, 25
	s_add_i32 s19, s2, s19
	s_and_b32 s19, s19, 0xffffff80
	s_ashr_i32 s3, s6, 31
	s_ashr_i32 s9, s12, 31
	s_lshr_b32 s3, s3, 24
	s_lshr_b32 s9, s9, 24
	s_add_i32 s3, s6, s3
	s_sub_i32 s2, s2, s19
	s_ashr_i32 s15, s3, 8
	s_add_i32 s3, s12, s9
	s_bfe_i32 s20, s2, 0x80000
	s_ashr_i32 s3, s3, 8
	s_bfe_u32 s20, s20, 0x3000c
	s_mul_i32 s9, s3, s15
	s_add_i32 s20, s2, s20
	s_sub_i32 s9, s9, s19
	s_bfe_i32 s21, s20, 0x80000
	s_min_i32 s9, s9, 0x80
	s_sext_i32_i16 s21, s21
	s_and_b32 s20, s20, 0xf8
	s_sub_i32 s2, s2, s20
	s_ashr_i32 s20, s21, 3
	s_ashr_i32 s21, s9, 31
	s_lshr_b32 s21, s21, 29
	s_add_i32 s21, s9, s21
	s_ashr_i32 s22, s21, 3
	s_and_b32 s21, s21, -8
	s_sub_i32 s9, s9, s21
	s_min_i32 s21, s15, 4
	s_mul_i32 s23, s3, s21
	s_abs_i32 s3, s23
	v_cvt_f32_u32_e32 v1, s3
	s_sext_i32_i8 s2, s2
	s_min_i32 s9, s2, s9
	s_mul_i32 s22, s22, s2
	v_rcp_iflag_f32_e32 v1, v1
	s_add_i32 s2, s19, s20
	s_add_i32 s2, s2, s22
	s_sub_i32 s19, 0, s3
	v_mul_f32_e32 v1, 0x4f7ffffe, v1
	v_cvt_u32_f32_e32 v1, v1
	s_add_i32 s20, s2, s9
	s_abs_i32 s9, s20
	s_xor_b32 s2, s20, s23
	v_readfirstlane_b32 s22, v1
	s_mul_i32 s19, s19, s22
	s_mul_hi_u32 s19, s22, s19
	s_add_i32 s22, s22, s19
	s_mul_hi_u32 s19, s9, s22
	s_mul_i32 s22, s19, s3
	s_sub_i32 s9, s9, s22
	s_ashr_i32 s2, s2, 31
	s_add_i32 s22, s19, 1
	s_sub_i32 s24, s9, s3
	s_cmp_ge_u32 s9, s3
	s_cselect_b32 s19, s22, s19
	s_cselect_b32 s9, s24, s9
	s_add_i32 s22, s19, 1
	s_cmp_ge_u32 s9, s3
	s_cselect_b32 s3, s22, s19
	s_xor_b32 s3, s3, s2
	s_sub_i32 s22, s3, s2
	s_mul_i32 s3, s22, s21
	s_sub_i32 s2, s15, s3
	s_min_i32 s9, s21, s2
	s_abs_i32 s19, s9
	v_cvt_f32_u32_e32 v1, s19
	s_sub_i32 s24, 0, s19
	s_mul_i32 s22, s22, s23
	v_readfirstlane_b32 s15, v0
	v_rcp_iflag_f32_e32 v1, v1
	s_sub_i32 s20, s20, s22
	s_ashr_i32 s21, s20, 31
	s_ashr_i32 s23, s9, 31
	v_mul_f32_e32 v1, 0x4f7ffffe, v1
	v_cvt_u32_f32_e32 v1, v1
	s_abs_i32 s22, s20
	s_mov_b32 s2, 0
	v_readfirstlane_b32 s25, v1
	s_mul_i32 s24, s24, s25
	s_mul_hi_u32 s24, s25, s24
	s_add_i32 s25, s25, s24
	s_and_b32 s24, s15, 0xffffff00
	s_cmpk_lg_i32 s24, 0x100
	s_mul_hi_u32 s24, s22, s25
	s_cbranch_scc1 .LBB0_2
	s_barrier
.LBB0_2:
	s_xor_b32 s21, s21, s23
	s_mul_i32 s23, s24, s19
	s_sub_i32 s22, s22, s23
	s_add_i32 s23, s24, 1
	s_sub_i32 s25, s22, s19
	s_cmp_ge_u32 s22, s19
	s_cselect_b32 s23, s23, s24
	s_cselect_b32 s22, s25, s22
	s_add_i32 s24, s23, 1
	s_cmp_ge_u32 s22, s19
	s_cselect_b32 s19, s24, s23
	s_xor_b32 s19, s19, s21
	s_sub_i32 s19, s19, s21
	s_mul_i32 s9, s19, s9
	s_sub_i32 s9, s20, s9
	s_add_i32 s3, s9, s3
	s_lshl_b32 s25, s3, 8
	s_min_i32 s22, s25, s6
	s_lshr_b32 s9, s15, 8
	s_bfe_u32 s24, s15, 0x20006
	s_ashr_i32 s23, s22, 31
	s_bfe_i64 s[6:7], s[6:7], 0x200000
	s_mov_b32 s3, s8
	s_mul_hi_i32 s21, s8, s22
	s_mul_i32 s20, s8, s22
	s_sub_u32 s22, s6, s22
	s_subb_u32 s23, s7, s23
	s_ashr_i64 s[6:7], s[2:3], 31
	s_mul_i32 s3, s6, s23
	s_mul_hi_u32 s23, s6, s22
	s_add_i32 s3, s23, s3
	s_mul_i32 s7, s7, s22
	v_and_b32_e32 v1, 0x1c0, v0
	v_and_b32_e32 v2, 32, v0
	v_lshlrev_b32_e32 v3, 3, v0
	s_add_i32 s7, s3, s7
	s_lshl_b64 s[20:21], s[20:21], 1
	v_lshrrev_b32_e32 v128, 2, v0
	v_and_or_b32 v26, v3, 24, v2
	v_lshrrev_b32_e32 v2, 3, v1
	s_mul_i32 s6, s6, s22
	s_add_u32 s4, s4, s20
	v_mov_b64_e32 v[18:19], 0xfffffffc
	v_and_or_b32 v20, v128, 7, v2
	s_addc_u32 s3, s5, s21
	v_cmp_lt_u64_e32 vcc, s[6:7], v[18:19]
	v_or_b32_e32 v27, 0x80, v20
	s_and_b64 s[20:21], vcc, exec
	v_mul_lo_u32 v2, v20, s8
	v_or_b32_e32 v21, 64, v20
	v_mul_lo_u32 v10, v27, s8
	v_or_b32_e32 v28, 0xc0, v20
	s_cselect_b32 s6, s6, -4
	s_and_b32 s5, s3, 0xffff
	s_mov_b32 s7, 0x20000
	v_add_lshl_u32 v133, v2, v26, 1
	v_mul_lo_u32 v2, v21, s8
	v_add_lshl_u32 v135, v10, v26, 1
	v_mul_lo_u32 v10, v28, s8
	v_add_lshl_u32 v134, v2, v26, 1
	buffer_load_dwordx4 v[2:5], v133, s[4:7], 0 offen
	buffer_load_dwordx4 v[6:9], v134, s[4:7], 0 offen
	v_add_lshl_u32 v136, v10, v26, 1
	buffer_load_dwordx4 v[10:13], v135, s[4:7], 0 offen
	buffer_load_dwordx4 v[14:17], v136, s[4:7], 0 offen
	s_waitcnt lgkmcnt(0)
	s_lshl_b32 s3, s19, 8
	s_min_i32 s22, s3, s12
	s_ashr_i32 s23, s22, 31
	s_bfe_i64 s[12:13], s[12:13], 0x200000
	s_mov_b32 s3, s14
	s_sub_u32 s12, s12, s22
	s_subb_u32 s13, s13, s23
	s_ashr_i64 s[2:3], s[2:3], 31
	s_mul_hi_i32 s21, s14, s22
	s_mul_i32 s20, s14, s22
	s_mul_i32 s13, s2, s13
	s_mul_hi_u32 s22, s2, s12
	s_add_i32 s13, s22, s13
	s_mul_i32 s3, s3, s12
	s_add_i32 s3, s13, s3
	s_mul_i32 s2, s2, s12
	s_lshl_b64 s[12:13], s[20:21], 1
	s_add_u32 s20, s10, s12
	s_addc_u32 s12, s11, s13
	v_cmp_lt_u64_e32 vcc, s[2:3], v[18:19]
	s_and_b64 s[10:11], vcc, exec
	v_mul_lo_u32 v18, v20, s14
	v_mul_lo_u32 v27, v27, s14
	s_cselect_b32 s22, s2, -4
	s_and_b32 s21, s12, 0xffff
	s_mov_b32 s23, s7
	v_add_lshl_u32 v137, v18, v26, 1
	v_mul_lo_u32 v18, v21, s14
	v_add_lshl_u32 v139, v27, v26, 1
	v_mul_lo_u32 v27, v28, s14
	v_add_lshl_u32 v138, v18, v26, 1
	buffer_load_dwordx4 v[18:21], v137, s[20:23], 0 offen
	buffer_load_dwordx4 v[22:25], v138, s[20:23], 0 offen
	v_add_lshl_u32 v140, v27, v26, 1
	buffer_load_dwordx4 v[26:29], v139, s[20:23], 0 offen
	buffer_load_dwordx4 v[30:33], v140, s[20:23], 0 offen
	s_waitcnt lgkmcnt(0)
	v_lshlrev_b32_e32 v38, 2, v0
	v_lshlrev_b32_e32 v129, 1, v0
	v_bfe_u32 v34, v0, 3, 2
	v_and_b32_e32 v36, 4, v0
	v_lshl_or_b32 v39, v0, 9, v38
	v_and_or_b32 v35, v128, 4, v34
	v_and_or_b32 v37, v129, 2, v36
	v_and_b32_e32 v39, 0x4008, v39
	v_lshrrev_b32_e32 v1, 4, v1
	v_add_u32_e32 v39, 0, v39
	v_or_b32_e32 v1, v1, v34
	v_xor_b32_e32 v34, v37, v35
	v_lshlrev_b32_e32 v1, 7, v1
	v_lshl_add_u32 v34, v34, 4, v39
	v_add_u32_e32 v141, v34, v1
	s_waitcnt vmcnt(6)
	ds_write2st64_b64 v141, v[2:3], v[6:7] offset1:8
	v_or_b32_e32 v2, 1, v37
	v_xor_b32_e32 v2, v2, v35
	v_lshl_add_u32 v2, v2, 4, v39
	v_add_u32_e32 v142, v2, v1
	ds_write2st64_b64 v142, v[4:5], v[8:9] offset1:8
	s_waitcnt vmcnt(4)
	ds_write2st64_b64 v141, v[10:11], v[14:15] offset0:16 offset1:24
	ds_write2st64_b64 v142, v[12:13], v[16:17] offset0:16 offset1:24
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v141, v[18:19], v[22:23] offset0:64 offset1:72
	ds_write2st64_b64 v142, v[20:21], v[24:25] offset0:64 offset1:72
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v141, v[26:27], v[30:31] offset0:80 offset1:88
	ds_write2st64_b64 v142, v[28:29], v[32:33] offset0:80 offset1:88
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_barrier
	v_lshrrev_b32_e32 v1, 4, v0
	v_lshrrev_b32_e32 v2, 1, v0
	v_and_b32_e32 v3, 4, v38
	v_and_or_b32 v2, v2, 3, v36
	v_lshlrev_b32_e32 v0, 6, v0
	v_and_or_b32 v1, v1, 3, v3
	v_and_b32_e32 v0, 0x380, v0
	v_xor_b32_e32 v1, v1, v2
	v_lshl_or_b32 v0, v1, 4, v0
	s_mov_b32 s2, 0xc0c0100
	v_perm_b32 v1, v0, v0, s2
	s_mov_b32 s2, 0x3020c0c
	v_perm_b32 v0, v0, v0, s2
	v_add_u32_e32 v1, 0, v1
	v_or_b32_e32 v0, v1, v0
	s_cmpk_gt_i32 s8, 0x7f
	v_lshl_add_u32 v131, s9, 12, v0
	v_lshl_add_u32 v0, s24, 12, v0
	s_cbranch_scc1 .LBB0_5
	v_add_u32_e32 v132, 0x2000, v131
	v_add_u32_e32 v130, 0x8000, v0
	s_load_dwordx2 s[0:1], s[0:1], 0x40
	s_cbranch_execz .LBB0_6
	v_mov_b32_e32 v3, 0
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v0, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v5, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v14, 0
	v_mov_b32_e32 v13, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v19, 0
	v_mov_b32_e32 v18, 0
	v_mov_b32_e32 v17, 0
	v_mov_b32_e32 v16, 0
	v_mov_b32_e32 v23, 0
	v_mov_b32_e32 v22, 0
	v_mov_b32_e32 v21, 0
	v_mov_b32_e32 v20, 0
	v_mov_b32_e32 v27, 0
	v_mov_b32_e32 v26, 0
	v_mov_b32_e32 v25, 0
	v_mov_b32_e32 v24, 0
	v_mov_b32_e32 v31, 0
	v_mov_b32_e32 v30, 0
	v_mov_b32_e32 v29, 0
	v_mov_b32_e32 v28, 0
	v_mov_b32_e32 v35, 0
	v_mov_b32_e32 v34, 0
	v_mov_b32_e32 v33, 0
	v_mov_b32_e32 v32, 0
	v_mov_b32_e32 v39, 0
	v_mov_b32_e32 v38, 0
	v_mov_b32_e32 v37, 0
	v_mov_b32_e32 v36, 0
	v_mov_b32_e32 v43, 0
	v_mov_b32_e32 v42, 0
	v_mov_b32_e32 v41, 0
	v_mov_b32_e32 v40, 0
	v_mov_b32_e32 v47, 0
	v_mov_b32_e32 v46, 0
	v_mov_b32_e32 v45, 0
	v_mov_b32_e32 v44, 0
	v_mov_b32_e32 v51, 0
	v_mov_b32_e32 v50, 0
	v_mov_b32_e32 v49, 0
	v_mov_b32_e32 v48, 0
	v_mov_b32_e32 v55, 0
	v_mov_b32_e32 v54, 0
	v_mov_b32_e32 v53, 0
	v_mov_b32_e32 v52, 0
	v_mov_b32_e32 v59, 0
	v_mov_b32_e32 v58, 0
	v_mov_b32_e32 v57, 0
	v_mov_b32_e32 v56, 0
	v_mov_b32_e32 v63, 0
	v_mov_b32_e32 v62, 0
	v_mov_b32_e32 v61, 0
	v_mov_b32_e32 v60, 0
	v_mov_b32_e32 v67, 0
	v_mov_b32_e32 v66, 0
	v_mov_b32_e32 v65, 0
	v_mov_b32_e32 v64, 0
	v_mov_b32_e32 v71, 0
	v_mov_b32_e32 v70, 0
	v_mov_b32_e32 v69, 0
	v_mov_b32_e32 v68, 0
	v_mov_b32_e32 v75, 0
	v_mov_b32_e32 v74, 0
	v_mov_b32_e32 v73, 0
	v_mov_b32_e32 v72, 0
	v_mov_b32_e32 v79, 0
	v_mov_b32_e32 v78, 0
	v_mov_b32_e32 v77, 0
	v_mov_b32_e32 v76, 0
	v_mov_b32_e32 v83, 0
	v_mov_b32_e32 v82, 0
	v_mov_b32_e32 v81, 0
	v_mov_b32_e32 v80, 0
	v_mov_b32_e32 v87, 0
	v_mov_b32_e32 v86, 0
	v_mov_b32_e32 v85, 0
	v_mov_b32_e32 v84, 0
	v_mov_b32_e32 v91, 0
	v_mov_b32_e32 v90, 0
	v_mov_b32_e32 v89, 0
	v_mov_b32_e32 v88, 0
	v_mov_b32_e32 v95, 0
	v_mov_b32_e32 v94, 0
	v_mov_b32_e32 v93, 0
	v_mov_b32_e32 v92, 0
	v_mov_b32_e32 v99, 0
	v_mov_b32_e32 v98, 0
	v_mov_b32_e32 v97, 0
	v_mov_b32_e32 v96, 0
	v_mov_b32_e32 v103, 0
	v_mov_b32_e32 v102, 0
	v_mov_b32_e32 v101, 0
	v_mov_b32_e32 v100, 0
	v_mov_b32_e32 v107, 0
	v_mov_b32_e32 v106, 0
	v_mov_b32_e32 v105, 0
	v_mov_b32_e32 v104, 0
	v_mov_b32_e32 v111, 0
	v_mov_b32_e32 v110, 0
	v_mov_b32_e32 v109, 0
	v_mov_b32_e32 v108, 0
	v_mov_b32_e32 v115, 0
	v_mov_b32_e32 v114, 0
	v_mov_b32_e32 v113, 0
	v_mov_b32_e32 v112, 0
	v_mov_b32_e32 v119, 0
	v_mov_b32_e32 v118, 0
	v_mov_b32_e32 v117, 0
	v_mov_b32_e32 v116, 0
	v_mov_b32_e32 v123, 0
	v_mov_b32_e32 v122, 0
	v_mov_b32_e32 v121, 0
	v_mov_b32_e32 v120, 0
	v_mov_b32_e32 v127, 0
	v_mov_b32_e32 v126, 0
	v_mov_b32_e32 v125, 0
	v_mov_b32_e32 v124, 0
	s_branch .LBB0_8
.LBB0_5:
	s_load_dwordx2 s[0:1], s[0:1], 0x40
.LBB0_6:
	s_ashr_i32 s2, s8, 31
	s_lshr_b32 s2, s2, 26
	s_add_i32 s2, s8, s2
	s_ashr_i32 s2, s2, 6
	s_max_i32 s2, s2, 2
	v_add_u32_e32 v130, 0x8000, v0
	v_add_u32_e32 v132, 0x2000, v131
	s_add_i32 s2, s2, -1
	s_movk_i32 s3, 0x80
	v_mov_b32_e32 v124, 0
	v_mov_b32_e32 v125, 0
	v_mov_b32_e32 v126, 0
	v_mov_b32_e32 v127, 0
	v_mov_b32_e32 v120, 0
	v_mov_b32_e32 v121, 0
	v_mov_b32_e32 v122, 0
	v_mov_b32_e32 v123, 0
	v_mov_b32_e32 v116, 0
	v_mov_b32_e32 v117, 0
	v_mov_b32_e32 v118, 0
	v_mov_b32_e32 v119, 0
	v_mov_b32_e32 v112, 0
	v_mov_b32_e32 v113, 0
	v_mov_b32_e32 v114, 0
	v_mov_b32_e32 v115, 0
	v_mov_b32_e32 v108, 0
	v_mov_b32_e32 v109, 0
	v_mov_b32_e32 v110, 0
	v_mov_b32_e32 v111, 0
	v_mov_b32_e32 v104, 0
	v_mov_b32_e32 v105, 0
	v_mov_b32_e32 v106, 0
	v_mov_b32_e32 v107, 0
	v_mov_b32_e32 v100, 0
	v_mov_b32_e32 v101, 0
	v_mov_b32_e32 v102, 0
	v_mov_b32_e32 v103, 0
	v_mov_b32_e32 v96, 0
	v_mov_b32_e32 v97, 0
	v_mov_b32_e32 v98, 0
	v_mov_b32_e32 v99, 0
	v_mov_b32_e32 v92, 0
	v_mov_b32_e32 v93, 0
	v_mov_b32_e32 v94, 0
	v_mov_b32_e32 v95, 0
	v_mov_b32_e32 v88, 0
	v_mov_b32_e32 v89, 0
	v_mov_b32_e32 v90, 0
	v_mov_b32_e32 v91, 0
	v_mov_b32_e32 v84, 0
	v_mov_b32_e32 v85, 0
	v_mov_b32_e32 v86, 0
	v_mov_b32_e32 v87, 0
	v_mov_b32_e32 v80, 0
	v_mov_b32_e32 v81, 0
	v_mov_b32_e32 v82, 0
	v_mov_b32_e32 v83, 0
	v_mov_b32_e32 v76, 0
	v_mov_b32_e32 v77, 0
	v_mov_b32_e32 v78, 0
	v_mov_b32_e32 v79, 0
	v_mov_b32_e32 v72, 0
	v_mov_b32_e32 v73, 0
	v_mov_b32_e32 v74, 0
	v_mov_b32_e32 v75, 0
	v_mov_b32_e32 v68, 0
	v_mov_b32_e32 v69, 0
	v_mov_b32_e32 v70, 0
	v_mov_b32_e32 v71, 0
	v_mov_b32_e32 v64, 0
	v_mov_b32_e32 v65, 0
	v_mov_b32_e32 v66, 0
	v_mov_b32_e32 v67, 0
	v_mov_b32_e32 v60, 0
	v_mov_b32_e32 v61, 0
	v_mov_b32_e32 v62, 0
	v_mov_b32_e32 v63, 0
	v_mov_b32_e32 v56, 0
	v_mov_b32_e32 v57, 0
	v_mov_b32_e32 v58, 0
	v_mov_b32_e32 v59, 0
	v_mov_b32_e32 v52, 0
	v_mov_b32_e32 v53, 0
	v_mov_b32_e32 v54, 0
	v_mov_b32_e32 v55, 0
	v_mov_b32_e32 v48, 0
	v_mov_b32_e32 v49, 0
	v_mov_b32_e32 v50, 0
	v_mov_b32_e32 v51, 0
	v_mov_b32_e32 v44, 0
	v_mov_b32_e32 v45, 0
	v_mov_b32_e32 v46, 0
	v_mov_b32_e32 v47, 0
	v_mov_b32_e32 v40, 0
	v_mov_b32_e32 v41, 0
	v_mov_b32_e32 v42, 0
	v_mov_b32_e32 v43, 0
	v_mov_b32_e32 v36, 0
	v_mov_b32_e32 v37, 0
	v_mov_b32_e32 v38, 0
	v_mov_b32_e32 v39, 0
	v_mov_b32_e32 v32, 0
	v_mov_b32_e32 v33, 0
	v_mov_b32_e32 v34, 0
	v_mov_b32_e32 v35, 0
	v_mov_b32_e32 v28, 0
	v_mov_b32_e32 v29, 0
	v_mov_b32_e32 v30, 0
	v_mov_b32_e32 v31, 0
	v_mov_b32_e32 v24, 0
	v_mov_b32_e32 v25, 0
	v_mov_b32_e32 v26, 0
	v_mov_b32_e32 v27, 0
	v_mov_b32_e32 v20, 0
	v_mov_b32_e32 v21, 0
	v_mov_b32_e32 v22, 0
	v_mov_b32_e32 v23, 0
	v_mov_b32_e32 v16, 0
	v_mov_b32_e32 v17, 0
	v_mov_b32_e32 v18, 0
	v_mov_b32_e32 v19, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v13, 0
	v_mov_b32_e32 v14, 0
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v5, 0
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v0, 0
	v_mov_b32_e32 v1, 0
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, 0
	s_mov_b32 s23, s7
.LBB0_7:
	buffer_load_dwordx4 v[144:147], v133, s[4:7], s3 offen
	buffer_load_dwordx4 v[148:151], v134, s[4:7], s3 offen
	buffer_load_dwordx4 v[152:155], v135, s[4:7], s3 offen
	buffer_load_dwordx4 v[156:159], v136, s[4:7], s3 offen
	ds_read2st64_b64 v[160:163], v131 offset1:2
	ds_read2st64_b64 v[164:167], v131 offset0:4 offset1:6
	ds_read2st64_b64 v[168:171], v131 offset0:16 offset1:18
	ds_read2st64_b64 v[172:175], v131 offset0:20 offset1:22
	ds_read2st64_b64 v[176:179], v130 offset1:2
	ds_read2st64_b64 v[180:183], v130 offset0:4 offset1:6
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[160:161], v[176:177], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[160:161], v[178:179], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[160:161], v[180:181], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[160:161], v[182:183], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[162:163], v[176:177], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[162:163], v[178:179], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[162:163], v[180:181], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[162:163], v[182:183], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[164:165], v[176:177], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[164:165], v[178:179], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[164:165], v[180:181], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[164:165], v[182:183], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[166:167], v[176:177], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[166:167], v[178:179], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[166:167], v[180:181], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[166:167], v[182:183], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[168:169], v[176:177], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[168:169], v[178:179], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[168:169], v[180:181], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[168:169], v[182:183], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[170:171], v[176:177], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[170:171], v[178:179], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[170:171], v[180:181], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[170:171], v[182:183], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[172:173], v[176:177], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[172:173], v[178:179], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[172:173], v[180:181], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[172:173], v[182:183], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[174:175], v[176:177], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[174:175], v[178:179], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[174:175], v[180:181], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[174:175], v[182:183], v[0:3]
	s_setprio 0
	s_barrier
	v_add_u32_e32 v143, 8, v131
	ds_read2st64_b64 v[164:167], v143 offset0:4 offset1:6
	ds_read2st64_b64 v[168:171], v143 offset0:16 offset1:18
	ds_read2st64_b64 v[172:175], v143 offset0:20 offset1:22
	ds_read2_b64 v[176:179], v130 offset0:1 offset1:129
	v_add_u32_e32 v143, 8, v130
	ds_read2_b64 v[160:163], v131 offset0:1 offset1:129
	ds_read2st64_b64 v[180:183], v143 offset0:4 offset1:6
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[160:161], v[176:177], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[160:161], v[178:179], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[160:161], v[180:181], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[160:161], v[182:183], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[162:163], v[176:177], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[162:163], v[178:179], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[162:163], v[180:181], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[162:163], v[182:183], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[164:165], v[176:177], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[164:165], v[178:179], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[164:165], v[180:181], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[164:165], v[182:183], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[166:167], v[176:177], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[166:167], v[178:179], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[166:167], v[180:181], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[166:167], v[182:183], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[168:169], v[176:177], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[168:169], v[178:179], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[168:169], v[180:181], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[168:169], v[182:183], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[170:171], v[176:177], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[170:171], v[178:179], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[170:171], v[180:181], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[170:171], v[182:183], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[172:173], v[176:177], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[172:173], v[178:179], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[172:173], v[180:181], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[172:173], v[182:183], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[174:175], v[176:177], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[174:175], v[178:179], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[174:175], v[180:181], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[174:175], v[182:183], v[0:3]
	s_setprio 0
	s_barrier
	buffer_load_dwordx4 v[160:163], v137, s[20:23], s3 offen
	buffer_load_dwordx4 v[164:167], v138, s[20:23], s3 offen
	buffer_load_dwordx4 v[168:171], v139, s[20:23], s3 offen
	buffer_load_dwordx4 v[172:175], v140, s[20:23], s3 offen
	ds_read_b128 v[176:179], v131 offset:16384
	ds_read_b128 v[180:183], v131 offset:17408
	ds_read_b128 v[184:187], v131 offset:18432
	ds_read_b128 v[188:191], v131 offset:19456
	ds_read_b128 v[192:195], v131 offset:24576
	ds_read_b128 v[196:199], v131 offset:25600
	ds_read_b128 v[200:203], v131 offset:26624
	ds_read_b128 v[204:207], v131 offset:27648
	ds_read_b128 v[208:211], v130 offset:16384
	ds_read_b128 v[212:215], v130 offset:17408
	ds_read_b128 v[216:219], v130 offset:18432
	ds_read_b128 v[220:223], v130 offset:19456
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[176:177], v[208:209], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[176:177], v[212:213], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[176:177], v[216:217], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[176:177], v[220:221], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[180:181], v[208:209], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[180:181], v[212:213], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[180:181], v[216:217], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[180:181], v[220:221], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[184:185], v[208:209], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[184:185], v[212:213], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[184:185], v[216:217], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[184:185], v[220:221], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[188:189], v[208:209], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[188:189], v[212:213], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[188:189], v[216:217], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[188:189], v[220:221], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[192:193], v[208:209], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[192:193], v[212:213], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[192:193], v[216:217], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[192:193], v[220:221], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[196:197], v[208:209], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[196:197], v[212:213], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[196:197], v[216:217], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[196:197], v[220:221], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[200:201], v[208:209], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[200:201], v[212:213], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[200:201], v[216:217], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[200:201], v[220:221], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[204:205], v[208:209], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[204:205], v[212:213], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[204:205], v[216:217], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[204:205], v[220:221], v[0:3]
	s_setprio 0
	s_barrier
	s_waitcnt vmcnt(6)
	ds_write2st64_b64 v141, v[144:145], v[148:149] offset1:8
	ds_write2st64_b64 v142, v[146:147], v[150:151] offset1:8
	s_waitcnt vmcnt(4)
	ds_write2st64_b64 v141, v[152:153], v[156:157] offset0:16 offset1:24
	ds_write2st64_b64 v142, v[154:155], v[158:159] offset0:16 offset1:24
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v141, v[160:161], v[164:165] offset0:64 offset1:72
	ds_write2st64_b64 v142, v[162:163], v[166:167] offset0:64 offset1:72
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v141, v[168:169], v[172:173] offset0:80 offset1:88
	ds_write2st64_b64 v142, v[170:171], v[174:175] offset0:80 offset1:88
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[178:179], v[210:211], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[178:179], v[214:215], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[178:179], v[218:219], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[178:179], v[222:223], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[182:183], v[210:211], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[182:183], v[214:215], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[182:183], v[218:219], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[182:183], v[222:223], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[186:187], v[210:211], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[186:187], v[214:215], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[186:187], v[218:219], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[186:187], v[222:223], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[190:191], v[210:211], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[190:191], v[214:215], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[190:191], v[218:219], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[190:191], v[222:223], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[194:195], v[210:211], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[194:195], v[214:215], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[194:195], v[218:219], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[194:195], v[222:223], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[198:199], v[210:211], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[198:199], v[214:215], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[198:199], v[218:219], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[198:199], v[222:223], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[202:203], v[210:211], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[202:203], v[214:215], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[202:203], v[218:219], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[202:203], v[222:223], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[206:207], v[210:211], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[206:207], v[214:215], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[206:207], v[218:219], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[206:207], v[222:223], v[0:3]
	s_setprio 0
	s_barrier
	s_add_i32 s2, s2, -1
	s_addk_i32 s3, 0x80
	s_cmp_eq_u32 s2, 0
	s_cbranch_scc0 .LBB0_7
.LBB0_8:
	ds_read2st64_b64 v[134:137], v131 offset1:16
	ds_read2st64_b64 v[138:141], v131 offset0:2 offset1:4
	ds_read_b64 v[154:155], v131 offset:3072
	ds_read2st64_b64 v[142:145], v132 offset0:2 offset1:4
	ds_read_b64 v[156:157], v132 offset:3072
	ds_read2st64_b64 v[146:149], v130 offset1:2
	ds_read2st64_b64 v[150:153], v130 offset0:4 offset1:6
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[134:135], v[146:147], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[134:135], v[148:149], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[134:135], v[150:151], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[134:135], v[152:153], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[138:139], v[146:147], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[138:139], v[148:149], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[138:139], v[150:151], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[138:139], v[152:153], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[140:141], v[146:147], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[140:141], v[148:149], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[140:141], v[150:151], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[140:141], v[152:153], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[154:155], v[146:147], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[154:155], v[148:149], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[154:155], v[150:151], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[154:155], v[152:153], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[136:137], v[146:147], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[136:137], v[148:149], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[136:137], v[150:151], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[136:137], v[152:153], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[142:143], v[146:147], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[142:143], v[148:149], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[142:143], v[150:151], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[142:143], v[152:153], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[144:145], v[146:147], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[144:145], v[148:149], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[144:145], v[150:151], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[144:145], v[152:153], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[156:157], v[146:147], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[156:157], v[148:149], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[156:157], v[150:151], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[156:157], v[152:153], v[0:3]
	s_setprio 0
	v_add_u32_e32 v133, 8, v131
	ds_read2st64_b64 v[134:137], v133 offset1:16
	v_add_u32_e32 v133, 8, v131
	ds_read2st64_b64 v[138:141], v133 offset0:2 offset1:4
	ds_read_b64 v[154:155], v131 offset:3080
	v_add_u32_e32 v133, 8, v132
	ds_read2st64_b64 v[142:145], v133 offset0:2 offset1:4
	ds_read_b64 v[156:157], v132 offset:3080
	ds_read2_b64 v[146:149], v130 offset0:1 offset1:129
	v_add_u32_e32 v133, 8, v130
	ds_read2st64_b64 v[150:153], v133 offset0:4 offset1:6
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[134:135], v[146:147], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[134:135], v[148:149], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[134:135], v[150:151], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[134:135], v[152:153], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[138:139], v[146:147], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[138:139], v[148:149], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[138:139], v[150:151], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[138:139], v[152:153], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[140:141], v[146:147], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[140:141], v[148:149], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[140:141], v[150:151], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[140:141], v[152:153], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[154:155], v[146:147], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[154:155], v[148:149], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[154:155], v[150:151], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[154:155], v[152:153], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[136:137], v[146:147], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[136:137], v[148:149], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[136:137], v[150:151], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[136:137], v[152:153], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[142:143], v[146:147], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[142:143], v[148:149], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[142:143], v[150:151], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[142:143], v[152:153], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[144:145], v[146:147], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[144:145], v[148:149], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[144:145], v[150:151], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[144:145], v[152:153], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[156:157], v[146:147], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[156:157], v[148:149], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[156:157], v[150:151], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[156:157], v[152:153], v[0:3]
	s_setprio 0
	ds_read_b128 v[134:137], v131 offset:16384
	ds_read_b128 v[138:141], v131 offset:17408
	ds_read_b128 v[142:145], v131 offset:18432
	ds_read_b128 v[146:149], v131 offset:19456
	ds_read_b128 v[150:153], v132 offset:16384
	ds_read_b128 v[154:157], v132 offset:17408
	ds_read_b128 v[158:161], v132 offset:18432
	ds_read_b128 v[162:165], v132 offset:19456
	ds_read_b128 v[166:169], v130 offset:16384
	ds_read_b128 v[170:173], v130 offset:17408
	ds_read_b128 v[174:177], v130 offset:18432
	ds_read_b128 v[130:133], v130 offset:19456
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[134:135], v[166:167], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[134:135], v[170:171], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[134:135], v[174:175], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[134:135], v[130:131], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[138:139], v[166:167], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[138:139], v[170:171], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[138:139], v[174:175], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[138:139], v[130:131], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[142:143], v[166:167], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[142:143], v[170:171], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[142:143], v[174:175], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[142:143], v[130:131], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[146:147], v[166:167], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[146:147], v[170:171], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[146:147], v[174:175], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[146:147], v[130:131], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[150:151], v[166:167], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[150:151], v[170:171], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[150:151], v[174:175], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[150:151], v[130:131], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[154:155], v[166:167], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[154:155], v[170:171], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[154:155], v[174:175], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[154:155], v[130:131], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[158:159], v[166:167], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[158:159], v[170:171], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[158:159], v[174:175], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[158:159], v[130:131], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[162:163], v[166:167], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[162:163], v[170:171], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[162:163], v[174:175], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[162:163], v[130:131], v[0:3]
	s_setprio 0
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[124:127], v[136:137], v[168:169], v[124:127]
	v_mfma_f32_16x16x16_bf16 v[120:123], v[136:137], v[172:173], v[120:123]
	v_mfma_f32_16x16x16_bf16 v[116:119], v[136:137], v[176:177], v[116:119]
	v_mfma_f32_16x16x16_bf16 v[112:115], v[136:137], v[132:133], v[112:115]
	v_mfma_f32_16x16x16_bf16 v[108:111], v[140:141], v[168:169], v[108:111]
	v_mfma_f32_16x16x16_bf16 v[104:107], v[140:141], v[172:173], v[104:107]
	v_mfma_f32_16x16x16_bf16 v[100:103], v[140:141], v[176:177], v[100:103]
	v_mfma_f32_16x16x16_bf16 v[96:99], v[140:141], v[132:133], v[96:99]
	v_mfma_f32_16x16x16_bf16 v[92:95], v[144:145], v[168:169], v[92:95]
	v_mfma_f32_16x16x16_bf16 v[88:91], v[144:145], v[172:173], v[88:91]
	v_mfma_f32_16x16x16_bf16 v[84:87], v[144:145], v[176:177], v[84:87]
	v_mfma_f32_16x16x16_bf16 v[80:83], v[144:145], v[132:133], v[80:83]
	v_mfma_f32_16x16x16_bf16 v[76:79], v[148:149], v[168:169], v[76:79]
	v_mfma_f32_16x16x16_bf16 v[72:75], v[148:149], v[172:173], v[72:75]
	v_mfma_f32_16x16x16_bf16 v[68:71], v[148:149], v[176:177], v[68:71]
	v_mfma_f32_16x16x16_bf16 v[64:67], v[148:149], v[132:133], v[64:67]
	v_mfma_f32_16x16x16_bf16 v[60:63], v[152:153], v[168:169], v[60:63]
	v_mfma_f32_16x16x16_bf16 v[56:59], v[152:153], v[172:173], v[56:59]
	v_mfma_f32_16x16x16_bf16 v[52:55], v[152:153], v[176:177], v[52:55]
	v_mfma_f32_16x16x16_bf16 v[48:51], v[152:153], v[132:133], v[48:51]
	v_mfma_f32_16x16x16_bf16 v[44:47], v[156:157], v[168:169], v[44:47]
	v_mfma_f32_16x16x16_bf16 v[40:43], v[156:157], v[172:173], v[40:43]
	v_mfma_f32_16x16x16_bf16 v[36:39], v[156:157], v[176:177], v[36:39]
	v_mfma_f32_16x16x16_bf16 v[32:35], v[156:157], v[132:133], v[32:35]
	v_mfma_f32_16x16x16_bf16 v[28:31], v[160:161], v[168:169], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[160:161], v[172:173], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[160:161], v[176:177], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[160:161], v[132:133], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[164:165], v[168:169], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[164:165], v[172:173], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[164:165], v[176:177], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[164:165], v[132:133], v[0:3]
	s_setprio 0
	s_lshl_b32 s2, s9, 6
	s_add_i32 s31, s25, s2
	s_lshl_b64 s[8:9], s[0:1], 1
	s_sub_i32 s4, s18, s31
	s_mov_b64 s[2:3], 0
	s_cmp_gt_i32 s4, 0
	s_mov_b64 s[6:7], 0
	s_cbranch_scc0 .LBB0_10
	s_mul_i32 s3, s9, s4
	s_mul_hi_u32 s5, s8, s4
	s_add_i32 s5, s5, s3
	s_mul_i32 s4, s8, s4
	v_mov_b64_e32 v[130:131], 0x7fffff00
	v_cmp_lt_u64_e32 vcc, s[4:5], v[130:131]
	s_and_b64 s[6:7], vcc, exec
	s_cselect_b32 s6, s4, 0x7fffff00
.LBB0_10:
	v_and_b32_e32 v130, 12, v128
	v_and_b32_e32 v128, 30, v129
	v_bfe_u32 v129, v127, 16, 1
	s_movk_i32 s10, 0x7fff
	v_add3_u32 v129, v129, v127, s10
	v_or_b32_e32 v131, 0x400000, v127
	v_cmp_u_f32_e32 vcc, v127, v127
	s_lshl_b32 s4, s19, 9
	s_lshl_b32 s5, s24, 7
	v_cndmask_b32_e32 v127, v129, v131, vcc
	v_lshrrev_b32_e32 v129, 16, v127
	v_bfe_u32 v127, v126, 16, 1
	v_add3_u32 v127, v127, v126, s10
	v_or_b32_e32 v131, 0x400000, v126
	v_cmp_u_f32_e32 vcc, v126, v126
	s_or_b32 s11, s4, s5
	s_ashr_i32 s4, s31, 31
	v_cndmask_b32_e32 v126, v127, v131, vcc
	s_mul_hi_u32 s5, s0, s31
	s_mul_i32 s4, s0, s4
	v_lshrrev_b32_e32 v131, 16, v126
	v_bfe_u32 v126, v125, 16, 1
	s_add_i32 s4, s5, s4
	s_mul_i32 s5, s1, s31
	v_add3_u32 v126, v126, v125, s10
	v_or_b32_e32 v127, 0x400000, v125
	v_cmp_u_f32_e32 vcc, v125, v125
	s_lshl_b32 s3, s0, 1
	s_add_i32 s5, s4, s5
	s_mul_i32 s4, s0, s31
	v_cndmask_b32_e32 v125, v126, v127, vcc
	v_bfe_u32 v126, v124, 16, 1
	s_sub_i32 s19, s3, s11
	s_lshl_b64 s[4:5], s[4:5], 1
	v_add3_u32 v126, v126, v124, s10
	v_or_b32_e32 v127, 0x400000, v124
	v_cmp_u_f32_e32 vcc, v124, v124
	s_add_u32 s4, s16, s4
	s_addc_u32 s5, s17, s5
	v_cndmask_b32_e32 v124, v126, v127, vcc
	v_mad_u64_u32 v[126:127], s[20:21], s3, v130, v[128:129]
	v_bfrev_b32_e32 v127, 1
	v_cmp_gt_i32_e32 vcc, s19, v128
	s_and_b32 s5, s5, 0xffff
	s_mov_b32 s7, 0x20000
	s_mul_i32 s14, s0, 6
	v_lshrrev_b32_e32 v132, 16, v124
	v_cndmask_b32_e32 v124, v127, v126, vcc
	s_add_i32 s12, s3, s11
	s_lshl2_add_u32 s13, s0, s11
	s_add_i32 s14, s14, s11
	v_lshrrev_b32_e32 v125, 16, v125
	buffer_store_short v132, v124, s[4:7], s11 offen
	buffer_store_short v125, v124, s[4:7], s12 offen
	buffer_store_short v131, v124, s[4:7], s13 offen
	buffer_store_short v129, v124, s[4:7], s14 offen
	v_bfe_u32 v129, v123, 16, 1
	v_add3_u32 v129, v129, v123, s10
	v_or_b32_e32 v130, 0x400000, v123
	v_cmp_u_f32_e32 vcc, v123, v123
	v_or_b32_e32 v125, 32, v128
	s_mul_i32 s20, s0, 34
	v_cndmask_b32_e32 v123, v129, v130, vcc
	v_bfe_u32 v129, v122, 16, 1
	v_add3_u32 v129, v129, v122, s10
	v_or_b32_e32 v130, 0x400000, v122
	v_cmp_u_f32_e32 vcc, v122, v122
	v_lshrrev_b32_e32 v123, 16, v123
	s_mul_i32 s21, s0, 36
	v_cndmask_b32_e32 v122, v129, v130, vcc
	v_bfe_u32 v129, v121, 16, 1
	v_add3_u32 v129, v129, v121, s10
	v_or_b32_e32 v130, 0x400000, v121
	v_cmp_u_f32_e32 vcc, v121, v121
	v_lshrrev_b32_e32 v122, 16, v122
	s_mul_i32 s22, s0, 38
	v_cndmask_b32_e32 v121, v129, v130, vcc
	v_bfe_u32 v129, v120, 16, 1
	v_add3_u32 v129, v129, v120, s10
	v_or_b32_e32 v130, 0x400000, v120
	v_cmp_u_f32_e32 vcc, v120, v120
	v_lshrrev_b32_e32 v121, 16, v121
	s_add_i32 s20, s20, s11
	v_cndmask_b32_e32 v120, v129, v130, vcc
	v_lshrrev_b32_e32 v129, 16, v120
	v_add_u32_e32 v120, 32, v126
	v_cmp_gt_i32_e32 vcc, s19, v125
	s_add_i32 s21, s21, s11
	s_add_i32 s22, s22, s11
	v_cndmask_b32_e32 v120, v127, v120, vcc
	buffer_store_short v129, v120, s[4:7], s11 offen
	buffer_store_short v121, v120, s[4:7], s12 offen
	buffer_store_short v122, v120, s[4:7], s13 offen
	buffer_store_short v123, v120, s[4:7], s14 offen
	v_bfe_u32 v122, v119, 16, 1
	v_add3_u32 v122, v122, v119, s10
	v_or_b32_e32 v123, 0x400000, v119
	v_cmp_u_f32_e32 vcc, v119, v119
	v_or_b32_e32 v121, 64, v128
	s_lshl_b32 s23, s0, 6
	v_cndmask_b32_e32 v119, v122, v123, vcc
	v_bfe_u32 v122, v118, 16, 1
	v_add3_u32 v122, v122, v118, s10
	v_or_b32_e32 v123, 0x400000, v118
	v_cmp_u_f32_e32 vcc, v118, v118
	v_lshrrev_b32_e32 v119, 16, v119
	s_add_i32 s23, s23, s11
	v_cndmask_b32_e32 v118, v122, v123, vcc
	v_bfe_u32 v122, v117, 16, 1
	v_add3_u32 v122, v122, v117, s10
	v_or_b32_e32 v123, 0x400000, v117
	v_cmp_u_f32_e32 vcc, v117, v117
	v_lshrrev_b32_e32 v118, 16, v118
	s_mul_i32 s24, s0, 0x42
	v_cndmask_b32_e32 v117, v122, v123, vcc
	v_bfe_u32 v122, v116, 16, 1
	v_add3_u32 v122, v122, v116, s10
	v_or_b32_e32 v123, 0x400000, v116
	v_cmp_u_f32_e32 vcc, v116, v116
	v_lshrrev_b32_e32 v117, 16, v117
	s_mul_i32 s25, s0, 0x44
	v_cndmask_b32_e32 v116, v122, v123, vcc
	v_lshrrev_b32_e32 v122, 16, v116
	v_add_u32_e32 v116, 64, v126
	v_cmp_gt_i32_e32 vcc, s19, v121
	s_mul_i32 s26, s0, 0x46
	s_add_i32 s24, s24, s11
	v_cndmask_b32_e32 v116, v127, v116, vcc
	buffer_store_short v122, v116, s[4:7], s11 offen
	buffer_store_short v117, v116, s[4:7], s12 offen
	buffer_store_short v118, v116, s[4:7], s13 offen
	buffer_store_short v119, v116, s[4:7], s14 offen
	v_bfe_u32 v118, v115, 16, 1
	v_add3_u32 v118, v118, v115, s10
	v_or_b32_e32 v119, 0x400000, v115
	v_cmp_u_f32_e32 vcc, v115, v115
	v_or_b32_e32 v117, 0x60, v128
	s_add_i32 s25, s25, s11
	v_cndmask_b32_e32 v115, v118, v119, vcc
	v_bfe_u32 v118, v114, 16, 1
	v_add3_u32 v118, v118, v114, s10
	v_or_b32_e32 v119, 0x400000, v114
	v_cmp_u_f32_e32 vcc, v114, v114
	v_lshrrev_b32_e32 v115, 16, v115
	s_add_i32 s26, s26, s11
	v_cndmask_b32_e32 v114, v118, v119, vcc
	v_bfe_u32 v118, v113, 16, 1
	v_add3_u32 v118, v118, v113, s10
	v_or_b32_e32 v119, 0x400000, v113
	v_cmp_u_f32_e32 vcc, v113, v113
	v_lshrrev_b32_e32 v114, 16, v114
	s_mul_i32 s27, s0, 0x60
	v_cndmask_b32_e32 v113, v118, v119, vcc
	v_bfe_u32 v118, v112, 16, 1
	v_add3_u32 v118, v118, v112, s10
	v_or_b32_e32 v119, 0x400000, v112
	v_cmp_u_f32_e32 vcc, v112, v112
	v_lshrrev_b32_e32 v113, 16, v113
	s_add_i32 s27, s27, s11
	v_cndmask_b32_e32 v112, v118, v119, vcc
	v_lshrrev_b32_e32 v118, 16, v112
	v_add_u32_e32 v112, 0x60, v126
	v_cmp_gt_i32_e32 vcc, s19, v117
	s_lshl_b32 s19, s0, 5
	s_add_i32 s19, s19, s11
	v_cndmask_b32_e32 v112, v127, v112, vcc
	buffer_store_short v118, v112, s[4:7], s11 offen
	buffer_store_short v113, v112, s[4:7], s12 offen
	buffer_store_short v114, v112, s[4:7], s13 offen
	buffer_store_short v115, v112, s[4:7], s14 offen
	v_bfe_u32 v113, v111, 16, 1
	v_add3_u32 v113, v113, v111, s10
	v_or_b32_e32 v114, 0x400000, v111
	v_cmp_u_f32_e32 vcc, v111, v111
	s_mul_i32 s28, s0, 0x62
	s_mul_i32 s30, s0, 0x64
	v_cndmask_b32_e32 v111, v113, v114, vcc
	v_bfe_u32 v113, v110, 16, 1
	v_add3_u32 v113, v113, v110, s10
	v_or_b32_e32 v114, 0x400000, v110
	v_cmp_u_f32_e32 vcc, v110, v110
	v_lshrrev_b32_e32 v111, 16, v111
	s_mul_i32 s29, s0, 0x66
	v_cndmask_b32_e32 v110, v113, v114, vcc
	v_bfe_u32 v113, v109, 16, 1
	v_add3_u32 v113, v113, v109, s10
	v_or_b32_e32 v114, 0x400000, v109
	v_cmp_u_f32_e32 vcc, v109, v109
	v_lshrrev_b32_e32 v110, 16, v110
	s_add_i32 s28, s28, s11
	v_cndmask_b32_e32 v109, v113, v114, vcc
	v_bfe_u32 v113, v108, 16, 1
	v_add3_u32 v113, v113, v108, s10
	v_or_b32_e32 v114, 0x400000, v108
	v_cmp_u_f32_e32 vcc, v108, v108
	v_lshrrev_b32_e32 v109, 16, v109
	s_add_i32 s30, s30, s11
	v_cndmask_b32_e32 v108, v113, v114, vcc
	v_lshrrev_b32_e32 v108, 16, v108
	buffer_store_short v108, v124, s[4:7], s19 offen
	buffer_store_short v109, v124, s[4:7], s20 offen
	buffer_store_short v110, v124, s[4:7], s21 offen
	buffer_store_short v111, v124, s[4:7], s22 offen
	v_bfe_u32 v108, v107, 16, 1
	v_add3_u32 v108, v108, v107, s10
	v_or_b32_e32 v109, 0x400000, v107
	v_cmp_u_f32_e32 vcc, v107, v107
	s_add_i32 s29, s29, s11
	s_addk_i32 s31, 0x80
	v_cndmask_b32_e32 v107, v108, v109, vcc
	v_bfe_u32 v108, v106, 16, 1
	v_add3_u32 v108, v108, v106, s10
	v_or_b32_e32 v109, 0x400000, v106
	v_cmp_u_f32_e32 vcc, v106, v106
	v_lshrrev_b32_e32 v107, 16, v107
	s_sub_i32 s3, s18, s31
	v_cndmask_b32_e32 v106, v108, v109, vcc
	v_bfe_u32 v108, v105, 16, 1
	v_add3_u32 v108, v108, v105, s10
	v_or_b32_e32 v109, 0x400000, v105
	v_cmp_u_f32_e32 vcc, v105, v105
	v_lshrrev_b32_e32 v106, 16, v106
	s_cmp_lt_i32 s3, 1
	v_cndmask_b32_e32 v105, v108, v109, vcc
	v_bfe_u32 v108, v104, 16, 1
	v_add3_u32 v108, v108, v104, s10
	v_or_b32_e32 v109, 0x400000, v104
	v_cmp_u_f32_e32 vcc, v104, v104
	v_lshrrev_b32_e32 v105, 16, v105
	s_nop 0
	v_cndmask_b32_e32 v104, v108, v109, vcc
	v_lshrrev_b32_e32 v104, 16, v104
	buffer_store_short v104, v120, s[4:7], s19 offen
	buffer_store_short v105, v120, s[4:7], s20 offen
	buffer_store_short v106, v120, s[4:7], s21 offen
	buffer_store_short v107, v120, s[4:7], s22 offen
	v_bfe_u32 v104, v103, 16, 1
	v_add3_u32 v104, v104, v103, s10
	v_or_b32_e32 v105, 0x400000, v103
	v_cmp_u_f32_e32 vcc, v103, v103
	s_nop 1
	v_cndmask_b32_e32 v103, v104, v105, vcc
	v_bfe_u32 v104, v102, 16, 1
	v_add3_u32 v104, v104, v102, s10
	v_or_b32_e32 v105, 0x400000, v102
	v_cmp_u_f32_e32 vcc, v102, v102
	v_lshrrev_b32_e32 v103, 16, v103
	s_nop 0
	v_cndmask_b32_e32 v102, v104, v105, vcc
	v_bfe_u32 v104, v101, 16, 1
	v_add3_u32 v104, v104, v101, s10
	v_or_b32_e32 v105, 0x400000, v101
	v_cmp_u_f32_e32 vcc, v101, v101
	v_lshrrev_b32_e32 v102, 16, v102
	s_nop 0
	v_cndmask_b32_e32 v101, v104, v105, vcc
	v_bfe_u32 v104, v100, 16, 1
	v_add3_u32 v104, v104, v100, s10
	v_or_b32_e32 v105, 0x400000, v100
	v_cmp_u_f32_e32 vcc, v100, v100
	v_lshrrev_b32_e32 v101, 16, v101
	s_nop 0
	v_cndmask_b32_e32 v100, v104, v105, vcc
	v_lshrrev_b32_e32 v100, 16, v100
	buffer_store_short v100, v116, s[4:7], s19 offen
	buffer_store_short v101, v116, s[4:7], s20 offen
	buffer_store_short v102, v116, s[4:7], s21 offen
	buffer_store_short v103, v116, s[4:7], s22 offen
	v_bfe_u32 v100, v99, 16, 1
	v_add3_u32 v100, v100, v99, s10
	v_or_b32_e32 v101, 0x400000, v99
	v_cmp_u_f32_e32 vcc, v99, v99
	s_nop 1
	v_cndmask_b32_e32 v99, v100, v101, vcc
	v_bfe_u32 v100, v98, 16, 1
	v_add3_u32 v100, v100, v98, s10
	v_or_b32_e32 v101, 0x400000, v98
	v_cmp_u_f32_e32 vcc, v98, v98
	v_lshrrev_b32_e32 v99, 16, v99
	s_nop 0
	v_cndmask_b32_e32 v98, v100, v101, vcc
	v_bfe_u32 v100, v97, 16, 1
	v_add3_u32 v100, v100, v97, s10
	v_or_b32_e32 v101, 0x400000, v97
	v_cmp_u_f32_e32 vcc, v97, v97
	v_lshrrev_b32_e32 v98, 16, v98
	s_nop 0
	v_cndmask_b32_e32 v97, v100, v101, vcc
	v_bfe_u32 v100, v96, 16, 1
	v_add3_u32 v100, v100, v96, s10
	v_or_b32_e32 v101, 0x400000, v96
	v_cmp_u_f32_e32 vcc, v96, v96
	v_lshrrev_b32_e32 v97, 16, v97
	s_nop 0
	v_cndmask_b32_e32 v96, v100, v101, vcc
	v_lshrrev_b32_e32 v96, 16, v96
	buffer_store_short v96, v112, s[4:7], s19 offen
	buffer_store_short v97, v112, s[4:7], s20 offen
	buffer_store_short v98, v112, s[4:7], s21 offen
	buffer_store_short v99, v112, s[4:7], s22 offen
	v_bfe_u32 v96, v95, 16, 1
	v_add3_u32 v96, v96, v95, s10
	v_or_b32_e32 v97, 0x400000, v95
	v_cmp_u_f32_e32 vcc, v95, v95
	s_nop 1
	v_cndmask_b32_e32 v95, v96, v97, vcc
	v_bfe_u32 v96, v94, 16, 1
	v_add3_u32 v96, v96, v94, s10
	v_or_b32_e32 v97, 0x400000, v94
	v_cmp_u_f32_e32 vcc, v94, v94
	v_lshrrev_b32_e32 v95, 16, v95
	s_nop 0
	v_cndmask_b32_e32 v94, v96, v97, vcc
	v_bfe_u32 v96, v93, 16, 1
	v_add3_u32 v96, v96, v93, s10
	v_or_b32_e32 v97, 0x400000, v93
	v_cmp_u_f32_e32 vcc, v93, v93
	v_lshrrev_b32_e32 v94, 16, v94
	s_nop 0
	v_cndmask_b32_e32 v93, v96, v97, vcc
	v_bfe_u32 v96, v92, 16, 1
	v_add3_u32 v96, v96, v92, s10
	v_or_b32_e32 v97, 0x400000, v92
	v_cmp_u_f32_e32 vcc, v92, v92
	v_lshrrev_b32_e32 v93, 16, v93
	s_nop 0
	v_cndmask_b32_e32 v92, v96, v97, vcc
	v_lshrrev_b32_e32 v92, 16, v92
	buffer_store_short v92, v124, s[4:7], s23 offen
	buffer_store_short v93, v124, s[4:7], s24 offen
	buffer_store_short v94, v124, s[4:7], s25 offen
	buffer_store_short v95, v124, s[4:7], s26 offen
	v_bfe_u32 v92, v91, 16, 1
	v_add3_u32 v92, v92, v91, s10
	v_or_b32_e32 v93, 0x400000, v91
	v_cmp_u_f32_e32 vcc, v91, v91
	s_nop 1
	v_cndmask_b32_e32 v91, v92, v93, vcc
	v_bfe_u32 v92, v90, 16, 1
	v_add3_u32 v92, v92, v90, s10
	v_or_b32_e32 v93, 0x400000, v90
	v_cmp_u_f32_e32 vcc, v90, v90
	v_lshrrev_b32_e32 v91, 16, v91
	s_nop 0
	v_cndmask_b32_e32 v90, v92, v93, vcc
	v_bfe_u32 v92, v89, 16, 1
	v_add3_u32 v92, v92, v89, s10
	v_or_b32_e32 v93, 0x400000, v89
	v_cmp_u_f32_e32 vcc, v89, v89
	v_lshrrev_b32_e32 v90, 16, v90
	s_nop 0
	v_cndmask_b32_e32 v89, v92, v93, vcc
	v_bfe_u32 v92, v88, 16, 1
	v_add3_u32 v92, v92, v88, s10
	v_or_b32_e32 v93, 0x400000, v88
	v_cmp_u_f32_e32 vcc, v88, v88
	v_lshrrev_b32_e32 v89, 16, v89
	s_nop 0
	v_cndmask_b32_e32 v88, v92, v93, vcc
	v_lshrrev_b32_e32 v88, 16, v88
	buffer_store_short v88, v120, s[4:7], s23 offen
	buffer_store_short v89, v120, s[4:7], s24 offen
	buffer_store_short v90, v120, s[4:7], s25 offen
	buffer_store_short v91, v120, s[4:7], s26 offen
	v_bfe_u32 v88, v87, 16, 1
	v_add3_u32 v88, v88, v87, s10
	v_or_b32_e32 v89, 0x400000, v87
	v_cmp_u_f32_e32 vcc, v87, v87
	s_nop 1
	v_cndmask_b32_e32 v87, v88, v89, vcc
	v_bfe_u32 v88, v86, 16, 1
	v_add3_u32 v88, v88, v86, s10
	v_or_b32_e32 v89, 0x400000, v86
	v_cmp_u_f32_e32 vcc, v86, v86
	v_lshrrev_b32_e32 v87, 16, v87
	s_nop 0
	v_cndmask_b32_e32 v86, v88, v89, vcc
	v_bfe_u32 v88, v85, 16, 1
	v_add3_u32 v88, v88, v85, s10
	v_or_b32_e32 v89, 0x400000, v85
	v_cmp_u_f32_e32 vcc, v85, v85
	v_lshrrev_b32_e32 v86, 16, v86
	s_nop 0
	v_cndmask_b32_e32 v85, v88, v89, vcc
	v_bfe_u32 v88, v84, 16, 1
	v_add3_u32 v88, v88, v84, s10
	v_or_b32_e32 v89, 0x400000, v84
	v_cmp_u_f32_e32 vcc, v84, v84
	v_lshrrev_b32_e32 v85, 16, v85
	s_nop 0
	v_cndmask_b32_e32 v84, v88, v89, vcc
	v_lshrrev_b32_e32 v84, 16, v84
	buffer_store_short v84, v116, s[4:7], s23 offen
	buffer_store_short v85, v116, s[4:7], s24 offen
	buffer_store_short v86, v116, s[4:7], s25 offen
	buffer_store_short v87, v116, s[4:7], s26 offen
	v_bfe_u32 v84, v83, 16, 1
	v_add3_u32 v84, v84, v83, s10
	v_or_b32_e32 v85, 0x400000, v83
	v_cmp_u_f32_e32 vcc, v83, v83
	s_nop 1
	v_cndmask_b32_e32 v83, v84, v85, vcc
	v_bfe_u32 v84, v82, 16, 1
	v_add3_u32 v84, v84, v82, s10
	v_or_b32_e32 v85, 0x400000, v82
	v_cmp_u_f32_e32 vcc, v82, v82
	v_lshrrev_b32_e32 v83, 16, v83
	s_nop 0
	v_cndmask_b32_e32 v82, v84, v85, vcc
	v_bfe_u32 v84, v81, 16, 1
	v_add3_u32 v84, v84, v81, s10
	v_or_b32_e32 v85, 0x400000, v81
	v_cmp_u_f32_e32 vcc, v81, v81
	v_lshrrev_b32_e32 v82, 16, v82
	s_nop 0
	v_cndmask_b32_e32 v81, v84, v85, vcc
	v_bfe_u32 v84, v80, 16, 1
	v_add3_u32 v84, v84, v80, s10
	v_or_b32_e32 v85, 0x400000, v80
	v_cmp_u_f32_e32 vcc, v80, v80
	v_lshrrev_b32_e32 v81, 16, v81
	s_nop 0
	v_cndmask_b32_e32 v80, v84, v85, vcc
	v_lshrrev_b32_e32 v80, 16, v80
	buffer_store_short v80, v112, s[4:7], s23 offen
	buffer_store_short v81, v112, s[4:7], s24 offen
	buffer_store_short v82, v112, s[4:7], s25 offen
	buffer_store_short v83, v112, s[4:7], s26 offen
	v_bfe_u32 v80, v79, 16, 1
	v_add3_u32 v80, v80, v79, s10
	v_or_b32_e32 v81, 0x400000, v79
	v_cmp_u_f32_e32 vcc, v79, v79
	s_nop 1
	v_cndmask_b32_e32 v79, v80, v81, vcc
	v_bfe_u32 v80, v78, 16, 1
	v_add3_u32 v80, v80, v78, s10
	v_or_b32_e32 v81, 0x400000, v78
	v_cmp_u_f32_e32 vcc, v78, v78
	v_lshrrev_b32_e32 v79, 16, v79
	s_nop 0
	v_cndmask_b32_e32 v78, v80, v81, vcc
	v_bfe_u32 v80, v77, 16, 1
	v_add3_u32 v80, v80, v77, s10
	v_or_b32_e32 v81, 0x400000, v77
	v_cmp_u_f32_e32 vcc, v77, v77
	v_lshrrev_b32_e32 v78, 16, v78
	s_nop 0
	v_cndmask_b32_e32 v77, v80, v81, vcc
	v_bfe_u32 v80, v76, 16, 1
	v_add3_u32 v80, v80, v76, s10
	v_or_b32_e32 v81, 0x400000, v76
	v_cmp_u_f32_e32 vcc, v76, v76
	v_lshrrev_b32_e32 v77, 16, v77
	s_nop 0
	v_cndmask_b32_e32 v76, v80, v81, vcc
	v_lshrrev_b32_e32 v76, 16, v76
	buffer_store_short v76, v124, s[4:7], s27 offen
	buffer_store_short v77, v124, s[4:7], s28 offen
	buffer_store_short v78, v124, s[4:7], s30 offen
	buffer_store_short v79, v124, s[4:7], s29 offen
	v_bfe_u32 v76, v75, 16, 1
	v_add3_u32 v76, v76, v75, s10
	v_or_b32_e32 v77, 0x400000, v75
	v_cmp_u_f32_e32 vcc, v75, v75
	s_nop 1
	v_cndmask_b32_e32 v75, v76, v77, vcc
	v_bfe_u32 v76, v74, 16, 1
	v_add3_u32 v76, v76, v74, s10
	v_or_b32_e32 v77, 0x400000, v74
	v_cmp_u_f32_e32 vcc, v74, v74
	v_lshrrev_b32_e32 v75, 16, v75
	s_nop 0
	v_cndmask_b32_e32 v74, v76, v77, vcc
	v_bfe_u32 v76, v73, 16, 1
	v_add3_u32 v76, v76, v73, s10
	v_or_b32_e32 v77, 0x400000, v73
	v_cmp_u_f32_e32 vcc, v73, v73
	v_lshrrev_b32_e32 v74, 16, v74
	s_nop 0
	v_cndmask_b32_e32 v73, v76, v77, vcc
	v_bfe_u32 v76, v72, 16, 1
	v_add3_u32 v76, v76, v72, s10
	v_or_b32_e32 v77, 0x400000, v72
	v_cmp_u_f32_e32 vcc, v72, v72
	v_lshrrev_b32_e32 v73, 16, v73
	s_nop 0
	v_cndmask_b32_e32 v72, v76, v77, vcc
	v_lshrrev_b32_e32 v72, 16, v72
	buffer_store_short v72, v120, s[4:7], s27 offen
	buffer_store_short v73, v120, s[4:7], s28 offen
	buffer_store_short v74, v120, s[4:7], s30 offen
	buffer_store_short v75, v120, s[4:7], s29 offen
	v_bfe_u32 v72, v71, 16, 1
	v_add3_u32 v72, v72, v71, s10
	v_or_b32_e32 v73, 0x400000, v71
	v_cmp_u_f32_e32 vcc, v71, v71
	s_nop 1
	v_cndmask_b32_e32 v71, v72, v73, vcc
	v_bfe_u32 v72, v70, 16, 1
	v_add3_u32 v72, v72, v70, s10
	v_or_b32_e32 v73, 0x400000, v70
	v_cmp_u_f32_e32 vcc, v70, v70
	v_lshrrev_b32_e32 v71, 16, v71
	s_nop 0
	v_cndmask_b32_e32 v70, v72, v73, vcc
	v_bfe_u32 v72, v69, 16, 1
	v_add3_u32 v72, v72, v69, s10
	v_or_b32_e32 v73, 0x400000, v69
	v_cmp_u_f32_e32 vcc, v69, v69
	v_lshrrev_b32_e32 v70, 16, v70
	s_nop 0
	v_cndmask_b32_e32 v69, v72, v73, vcc
	v_bfe_u32 v72, v68, 16, 1
	v_add3_u32 v72, v72, v68, s10
	v_or_b32_e32 v73, 0x400000, v68
	v_cmp_u_f32_e32 vcc, v68, v68
	v_lshrrev_b32_e32 v69, 16, v69
	s_nop 0
	v_cndmask_b32_e32 v68, v72, v73, vcc
	v_lshrrev_b32_e32 v68, 16, v68
	buffer_store_short v68, v116, s[4:7], s27 offen
	buffer_store_short v69, v116, s[4:7], s28 offen
	buffer_store_short v70, v116, s[4:7], s30 offen
	buffer_store_short v71, v116, s[4:7], s29 offen
	v_bfe_u32 v68, v67, 16, 1
	v_add3_u32 v68, v68, v67, s10
	v_or_b32_e32 v69, 0x400000, v67
	v_cmp_u_f32_e32 vcc, v67, v67
	s_nop 1
	v_cndmask_b32_e32 v67, v68, v69, vcc
	v_bfe_u32 v68, v66, 16, 1
	v_add3_u32 v68, v68, v66, s10
	v_or_b32_e32 v69, 0x400000, v66
	v_cmp_u_f32_e32 vcc, v66, v66
	v_lshrrev_b32_e32 v67, 16, v67
	s_nop 0
	v_cndmask_b32_e32 v66, v68, v69, vcc
	v_bfe_u32 v68, v65, 16, 1
	v_add3_u32 v68, v68, v65, s10
	v_or_b32_e32 v69, 0x400000, v65
	v_cmp_u_f32_e32 vcc, v65, v65
	v_lshrrev_b32_e32 v66, 16, v66
	s_nop 0
	v_cndmask_b32_e32 v65, v68, v69, vcc
	v_bfe_u32 v68, v64, 16, 1
	v_add3_u32 v68, v68, v64, s10
	v_or_b32_e32 v69, 0x400000, v64
	v_cmp_u_f32_e32 vcc, v64, v64
	v_lshrrev_b32_e32 v65, 16, v65
	s_nop 0
	v_cndmask_b32_e32 v64, v68, v69, vcc
	v_lshrrev_b32_e32 v64, 16, v64
	buffer_store_short v64, v112, s[4:7], s27 offen
	buffer_store_short v65, v112, s[4:7], s28 offen
	buffer_store_short v66, v112, s[4:7], s30 offen
	buffer_store_short v67, v112, s[4:7], s29 offen
	s_cbranch_scc1 .LBB0_12
	s_mul_i32 s2, s9, s3
	s_mul_hi_u32 s4, s8, s3
	s_add_i32 s5, s4, s2
	s_mul_i32 s4, s8, s3
	v_mov_b64_e32 v[64:65], 0x7fffff00
	v_cmp_lt_u64_e32 vcc, s[4:5], v[64:65]
	s_and_b64 s[2:3], vcc, exec
	s_cselect_b32 s2, s4, 0x7fffff00
.LBB0_12:
	v_bfe_u32 v64, v63, 16, 1
	v_add3_u32 v64, v64, v63, s10
	v_or_b32_e32 v65, 0x400000, v63
	v_cmp_u_f32_e32 vcc, v63, v63
	s_ashr_i32 s3, s31, 31
	s_mul_hi_u32 s4, s0, s31
	v_cndmask_b32_e32 v63, v64, v65, vcc
	v_bfe_u32 v64, v62, 16, 1
	s_mul_i32 s3, s0, s3
	v_add3_u32 v64, v64, v62, s10
	v_or_b32_e32 v65, 0x400000, v62
	v_cmp_u_f32_e32 vcc, v62, v62
	s_add_i32 s3, s4, s3
	s_mul_i32 s1, s1, s31
	v_cndmask_b32_e32 v62, v64, v65, vcc
	v_bfe_u32 v64, v61, 16, 1
	s_add_i32 s1, s3, s1
	s_mul_i32 s0, s0, s31
	v_add3_u32 v64, v64, v61, s10
	v_or_b32_e32 v65, 0x400000, v61
	v_cmp_u_f32_e32 vcc, v61, v61
	s_lshl_b64 s[0:1], s[0:1], 1
	s_add_u32 s0, s16, s0
	v_cndmask_b32_e32 v61, v64, v65, vcc
	v_bfe_u32 v64, v60, 16, 1
	v_add3_u32 v64, v64, v60, s10
	v_or_b32_e32 v65, 0x400000, v60
	v_cmp_u_f32_e32 vcc, v60, v60
	s_addc_u32 s1, s17, s1
	s_and_b32 s1, s1, 0xffff
	v_cndmask_b32_e32 v60, v64, v65, vcc
	s_mov_b32 s3, s7
	v_lshrrev_b32_e32 v60, 16, v60
	v_lshrrev_b32_e32 v63, 16, v63
	v_lshrrev_b32_e32 v62, 16, v62
	v_lshrrev_b32_e32 v61, 16, v61
	buffer_store_short v60, v124, s[0:3], s11 offen
	buffer_store_short v61, v124, s[0:3], s12 offen
	buffer_store_short v62, v124, s[0:3], s13 offen
	buffer_store_short v63, v124, s[0:3], s14 offen
	v_bfe_u32 v60, v59, 16, 1
	v_add3_u32 v60, v60, v59, s10
	v_or_b32_e32 v61, 0x400000, v59
	v_cmp_u_f32_e32 vcc, v59, v59
	s_cmpk_gt_u32 s15, 0xff
	s_nop 0
	v_cndmask_b32_e32 v59, v60, v61, vcc
	v_bfe_u32 v60, v58, 16, 1
	v_add3_u32 v60, v60, v58, s10
	v_or_b32_e32 v61, 0x400000, v58
	v_cmp_u_f32_e32 vcc, v58, v58
	v_lshrrev_b32_e32 v59, 16, v59
	s_nop 0
	v_cndmask_b32_e32 v58, v60, v61, vcc
	v_bfe_u32 v60, v57, 16, 1
	v_add3_u32 v60, v60, v57, s10
	v_or_b32_e32 v61, 0x400000, v57
	v_cmp_u_f32_e32 vcc, v57, v57
	v_lshrrev_b32_e32 v58, 16, v58
	s_nop 0
	v_cndmask_b32_e32 v57, v60, v61, vcc
	v_bfe_u32 v60, v56, 16, 1
	v_add3_u32 v60, v60, v56, s10
	v_or_b32_e32 v61, 0x400000, v56
	v_cmp_u_f32_e32 vcc, v56, v56
	v_lshrrev_b32_e32 v57, 16, v57
	s_nop 0
	v_cndmask_b32_e32 v56, v60, v61, vcc
	v_lshrrev_b32_e32 v56, 16, v56
	buffer_store_short v56, v120, s[0:3], s11 offen
	buffer_store_short v57, v120, s[0:3], s12 offen
	buffer_store_short v58, v120, s[0:3], s13 offen
	buffer_store_short v59, v120, s[0:3], s14 offen
	v_bfe_u32 v56, v55, 16, 1
	v_add3_u32 v56, v56, v55, s10
	v_or_b32_e32 v57, 0x400000, v55
	v_cmp_u_f32_e32 vcc, v55, v55
	s_nop 1
	v_cndmask_b32_e32 v55, v56, v57, vcc
	v_bfe_u32 v56, v54, 16, 1
	v_add3_u32 v56, v56, v54, s10
	v_or_b32_e32 v57, 0x400000, v54
	v_cmp_u_f32_e32 vcc, v54, v54
	v_lshrrev_b32_e32 v55, 16, v55
	s_nop 0
	v_cndmask_b32_e32 v54, v56, v57, vcc
	v_bfe_u32 v56, v53, 16, 1
	v_add3_u32 v56, v56, v53, s10
	v_or_b32_e32 v57, 0x400000, v53
	v_cmp_u_f32_e32 vcc, v53, v53
	v_lshrrev_b32_e32 v54, 16, v54
	s_nop 0
	v_cndmask_b32_e32 v53, v56, v57, vcc
	v_bfe_u32 v56, v52, 16, 1
	v_add3_u32 v56, v56, v52, s10
	v_or_b32_e32 v57, 0x400000, v52
	v_cmp_u_f32_e32 vcc, v52, v52
	v_lshrrev_b32_e32 v53, 16, v53
	s_nop 0
	v_cndmask_b32_e32 v52, v56, v57, vcc
	v_lshrrev_b32_e32 v52, 16, v52
	buffer_store_short v52, v116, s[0:3], s11 offen
	buffer_store_short v53, v116, s[0:3], s12 offen
	buffer_store_short v54, v116, s[0:3], s13 offen
	buffer_store_short v55, v116, s[0:3], s14 offen
	v_bfe_u32 v52, v51, 16, 1
	v_add3_u32 v52, v52, v51, s10
	v_or_b32_e32 v53, 0x400000, v51
	v_cmp_u_f32_e32 vcc, v51, v51
	s_nop 1
	v_cndmask_b32_e32 v51, v52, v53, vcc
	v_bfe_u32 v52, v50, 16, 1
	v_add3_u32 v52, v52, v50, s10
	v_or_b32_e32 v53, 0x400000, v50
	v_cmp_u_f32_e32 vcc, v50, v50
	v_lshrrev_b32_e32 v51, 16, v51
	s_nop 0
	v_cndmask_b32_e32 v50, v52, v53, vcc
	v_bfe_u32 v52, v49, 16, 1
	v_add3_u32 v52, v52, v49, s10
	v_or_b32_e32 v53, 0x400000, v49
	v_cmp_u_f32_e32 vcc, v49, v49
	v_lshrrev_b32_e32 v50, 16, v50
	s_nop 0
	v_cndmask_b32_e32 v49, v52, v53, vcc
	v_bfe_u32 v52, v48, 16, 1
	v_add3_u32 v52, v52, v48, s10
	v_or_b32_e32 v53, 0x400000, v48
	v_cmp_u_f32_e32 vcc, v48, v48
	v_lshrrev_b32_e32 v49, 16, v49
	s_nop 0
	v_cndmask_b32_e32 v48, v52, v53, vcc
	v_lshrrev_b32_e32 v48, 16, v48
	buffer_store_short v48, v112, s[0:3], s11 offen
	buffer_store_short v49, v112, s[0:3], s12 offen
	buffer_store_short v50, v112, s[0:3], s13 offen
	buffer_store_short v51, v112, s[0:3], s14 offen
	v_bfe_u32 v48, v47, 16, 1
	v_add3_u32 v48, v48, v47, s10
	v_or_b32_e32 v49, 0x400000, v47
	v_cmp_u_f32_e32 vcc, v47, v47
	s_nop 1
	v_cndmask_b32_e32 v47, v48, v49, vcc
	v_bfe_u32 v48, v46, 16, 1
	v_add3_u32 v48, v48, v46, s10
	v_or_b32_e32 v49, 0x400000, v46
	v_cmp_u_f32_e32 vcc, v46, v46
	v_lshrrev_b32_e32 v47, 16, v47
	s_nop 0
	v_cndmask_b32_e32 v46, v48, v49, vcc
	v_bfe_u32 v48, v45, 16, 1
	v_add3_u32 v48, v48, v45, s10
	v_or_b32_e32 v49, 0x400000, v45
	v_cmp_u_f32_e32 vcc, v45, v45
	v_lshrrev_b32_e32 v46, 16, v46
	s_nop 0
	v_cndmask_b32_e32 v45, v48, v49, vcc
	v_bfe_u32 v48, v44, 16, 1
	v_add3_u32 v48, v48, v44, s10
	v_or_b32_e32 v49, 0x400000, v44
	v_cmp_u_f32_e32 vcc, v44, v44
	v_lshrrev_b32_e32 v45, 16, v45
	s_nop 0
	v_cndmask_b32_e32 v44, v48, v49, vcc
	v_lshrrev_b32_e32 v44, 16, v44
	buffer_store_short v44, v124, s[0:3], s19 offen
	buffer_store_short v45, v124, s[0:3], s20 offen
	buffer_store_short v46, v124, s[0:3], s21 offen
	buffer_store_short v47, v124, s[0:3], s22 offen
	v_bfe_u32 v44, v43, 16, 1
	v_add3_u32 v44, v44, v43, s10
	v_or_b32_e32 v45, 0x400000, v43
	v_cmp_u_f32_e32 vcc, v43, v43
	s_nop 1
	v_cndmask_b32_e32 v43, v44, v45, vcc
	v_bfe_u32 v44, v42, 16, 1
	v_add3_u32 v44, v44, v42, s10
	v_or_b32_e32 v45, 0x400000, v42
	v_cmp_u_f32_e32 vcc, v42, v42
	v_lshrrev_b32_e32 v43, 16, v43
	s_nop 0
	v_cndmask_b32_e32 v42, v44, v45, vcc
	v_bfe_u32 v44, v41, 16, 1
	v_add3_u32 v44, v44, v41, s10
	v_or_b32_e32 v45, 0x400000, v41
	v_cmp_u_f32_e32 vcc, v41, v41
	v_lshrrev_b32_e32 v42, 16, v42
	s_nop 0
	v_cndmask_b32_e32 v41, v44, v45, vcc
	v_bfe_u32 v44, v40, 16, 1
	v_add3_u32 v44, v44, v40, s10
	v_or_b32_e32 v45, 0x400000, v40
	v_cmp_u_f32_e32 vcc, v40, v40
	v_lshrrev_b32_e32 v41, 16, v41
	s_nop 0
	v_cndmask_b32_e32 v40, v44, v45, vcc
	v_lshrrev_b32_e32 v40, 16, v40
	buffer_store_short v40, v120, s[0:3], s19 offen
	buffer_store_short v41, v120, s[0:3], s20 offen
	buffer_store_short v42, v120, s[0:3], s21 offen
	buffer_store_short v43, v120, s[0:3], s22 offen
	v_bfe_u32 v40, v39, 16, 1
	v_add3_u32 v40, v40, v39, s10
	v_or_b32_e32 v41, 0x400000, v39
	v_cmp_u_f32_e32 vcc, v39, v39
	s_nop 1
	v_cndmask_b32_e32 v39, v40, v41, vcc
	v_bfe_u32 v40, v38, 16, 1
	v_add3_u32 v40, v40, v38, s10
	v_or_b32_e32 v41, 0x400000, v38
	v_cmp_u_f32_e32 vcc, v38, v38
	v_lshrrev_b32_e32 v39, 16, v39
	s_nop 0
	v_cndmask_b32_e32 v38, v40, v41, vcc
	v_bfe_u32 v40, v37, 16, 1
	v_add3_u32 v40, v40, v37, s10
	v_or_b32_e32 v41, 0x400000, v37
	v_cmp_u_f32_e32 vcc, v37, v37
	v_lshrrev_b32_e32 v38, 16, v38
	s_nop 0
	v_cndmask_b32_e32 v37, v40, v41, vcc
	v_bfe_u32 v40, v36, 16, 1
	v_add3_u32 v40, v40, v36, s10
	v_or_b32_e32 v41, 0x400000, v36
	v_cmp_u_f32_e32 vcc, v36, v36
	v_lshrrev_b32_e32 v37, 16, v37
	s_nop 0
	v_cndmask_b32_e32 v36, v40, v41, vcc
	v_lshrrev_b32_e32 v36, 16, v36
	buffer_store_short v36, v116, s[0:3], s19 offen
	buffer_store_short v37, v116, s[0:3], s20 offen
	buffer_store_short v38, v116, s[0:3], s21 offen
	buffer_store_short v39, v116, s[0:3], s22 offen
	v_bfe_u32 v36, v35, 16, 1
	v_add3_u32 v36, v36, v35, s10
	v_or_b32_e32 v37, 0x400000, v35
	v_cmp_u_f32_e32 vcc, v35, v35
	s_nop 1
	v_cndmask_b32_e32 v35, v36, v37, vcc
	v_bfe_u32 v36, v34, 16, 1
	v_add3_u32 v36, v36, v34, s10
	v_or_b32_e32 v37, 0x400000, v34
	v_cmp_u_f32_e32 vcc, v34, v34
	v_lshrrev_b32_e32 v35, 16, v35
	s_nop 0
	v_cndmask_b32_e32 v34, v36, v37, vcc
	v_bfe_u32 v36, v33, 16, 1
	v_add3_u32 v36, v36, v33, s10
	v_or_b32_e32 v37, 0x400000, v33
	v_cmp_u_f32_e32 vcc, v33, v33
	v_lshrrev_b32_e32 v34, 16, v34
	s_nop 0
	v_cndmask_b32_e32 v33, v36, v37, vcc
	v_bfe_u32 v36, v32, 16, 1
	v_add3_u32 v36, v36, v32, s10
	v_or_b32_e32 v37, 0x400000, v32
	v_cmp_u_f32_e32 vcc, v32, v32
	v_lshrrev_b32_e32 v33, 16, v33
	s_nop 0
	v_cndmask_b32_e32 v32, v36, v37, vcc
	v_lshrrev_b32_e32 v32, 16, v32
	buffer_store_short v32, v112, s[0:3], s19 offen
	buffer_store_short v33, v112, s[0:3], s20 offen
	buffer_store_short v34, v112, s[0:3], s21 offen
	buffer_store_short v35, v112, s[0:3], s22 offen
	v_bfe_u32 v32, v31, 16, 1
	v_add3_u32 v32, v32, v31, s10
	v_or_b32_e32 v33, 0x400000, v31
	v_cmp_u_f32_e32 vcc, v31, v31
	s_nop 1
	v_cndmask_b32_e32 v31, v32, v33, vcc
	v_bfe_u32 v32, v30, 16, 1
	v_add3_u32 v32, v32, v30, s10
	v_or_b32_e32 v33, 0x400000, v30
	v_cmp_u_f32_e32 vcc, v30, v30
	v_lshrrev_b32_e32 v31, 16, v31
	s_nop 0
	v_cndmask_b32_e32 v30, v32, v33, vcc
	v_bfe_u32 v32, v29, 16, 1
	v_add3_u32 v32, v32, v29, s10
	v_or_b32_e32 v33, 0x400000, v29
	v_cmp_u_f32_e32 vcc, v29, v29
	v_lshrrev_b32_e32 v30, 16, v30
	s_nop 0
	v_cndmask_b32_e32 v29, v32, v33, vcc
	v_bfe_u32 v32, v28, 16, 1
	v_add3_u32 v32, v32, v28, s10
	v_or_b32_e32 v33, 0x400000, v28
	v_cmp_u_f32_e32 vcc, v28, v28
	v_lshrrev_b32_e32 v29, 16, v29
	s_nop 0
	v_cndmask_b32_e32 v28, v32, v33, vcc
	v_lshrrev_b32_e32 v28, 16, v28
	buffer_store_short v28, v124, s[0:3], s23 offen
	buffer_store_short v29, v124, s[0:3], s24 offen
	buffer_store_short v30, v124, s[0:3], s25 offen
	buffer_store_short v31, v124, s[0:3], s26 offen
	v_bfe_u32 v28, v27, 16, 1
	v_add3_u32 v28, v28, v27, s10
	v_or_b32_e32 v29, 0x400000, v27
	v_cmp_u_f32_e32 vcc, v27, v27
	s_nop 1
	v_cndmask_b32_e32 v27, v28, v29, vcc
	v_bfe_u32 v28, v26, 16, 1
	v_add3_u32 v28, v28, v26, s10
	v_or_b32_e32 v29, 0x400000, v26
	v_cmp_u_f32_e32 vcc, v26, v26
	v_lshrrev_b32_e32 v27, 16, v27
	s_nop 0
	v_cndmask_b32_e32 v26, v28, v29, vcc
	v_bfe_u32 v28, v25, 16, 1
	v_add3_u32 v28, v28, v25, s10
	v_or_b32_e32 v29, 0x400000, v25
	v_cmp_u_f32_e32 vcc, v25, v25
	v_lshrrev_b32_e32 v26, 16, v26
	s_nop 0
	v_cndmask_b32_e32 v25, v28, v29, vcc
	v_bfe_u32 v28, v24, 16, 1
	v_add3_u32 v28, v28, v24, s10
	v_or_b32_e32 v29, 0x400000, v24
	v_cmp_u_f32_e32 vcc, v24, v24
	v_lshrrev_b32_e32 v25, 16, v25
	s_nop 0
	v_cndmask_b32_e32 v24, v28, v29, vcc
	v_lshrrev_b32_e32 v24, 16, v24
	buffer_store_short v24, v120, s[0:3], s23 offen
	buffer_store_short v25, v120, s[0:3], s24 offen
	buffer_store_short v26, v120, s[0:3], s25 offen
	buffer_store_short v27, v120, s[0:3], s26 offen
	v_bfe_u32 v24, v23, 16, 1
	v_add3_u32 v24, v24, v23, s10
	v_or_b32_e32 v25, 0x400000, v23
	v_cmp_u_f32_e32 vcc, v23, v23
	s_nop 1
	v_cndmask_b32_e32 v23, v24, v25, vcc
	v_bfe_u32 v24, v22, 16, 1
	v_add3_u32 v24, v24, v22, s10
	v_or_b32_e32 v25, 0x400000, v22
	v_cmp_u_f32_e32 vcc, v22, v22
	v_lshrrev_b32_e32 v23, 16, v23
	s_nop 0
	v_cndmask_b32_e32 v22, v24, v25, vcc
	v_bfe_u32 v24, v21, 16, 1
	v_add3_u32 v24, v24, v21, s10
	v_or_b32_e32 v25, 0x400000, v21
	v_cmp_u_f32_e32 vcc, v21, v21
	v_lshrrev_b32_e32 v22, 16, v22
	s_nop 0
	v_cndmask_b32_e32 v21, v24, v25, vcc
	v_bfe_u32 v24, v20, 16, 1
	v_add3_u32 v24, v24, v20, s10
	v_or_b32_e32 v25, 0x400000, v20
	v_cmp_u_f32_e32 vcc, v20, v20
	v_lshrrev_b32_e32 v21, 16, v21
	s_nop 0
	v_cndmask_b32_e32 v20, v24, v25, vcc
	v_lshrrev_b32_e32 v20, 16, v20
	buffer_store_short v20, v116, s[0:3], s23 offen
	buffer_store_short v21, v116, s[0:3], s24 offen
	buffer_store_short v22, v116, s[0:3], s25 offen
	buffer_store_short v23, v116, s[0:3], s26 offen
	v_bfe_u32 v20, v19, 16, 1
	v_add3_u32 v20, v20, v19, s10
	v_or_b32_e32 v21, 0x400000, v19
	v_cmp_u_f32_e32 vcc, v19, v19
	s_nop 1
	v_cndmask_b32_e32 v19, v20, v21, vcc
	v_bfe_u32 v20, v18, 16, 1
	v_add3_u32 v20, v20, v18, s10
	v_or_b32_e32 v21, 0x400000, v18
	v_cmp_u_f32_e32 vcc, v18, v18
	v_lshrrev_b32_e32 v19, 16, v19
	s_nop 0
	v_cndmask_b32_e32 v18, v20, v21, vcc
	v_bfe_u32 v20, v17, 16, 1
	v_add3_u32 v20, v20, v17, s10
	v_or_b32_e32 v21, 0x400000, v17
	v_cmp_u_f32_e32 vcc, v17, v17
	v_lshrrev_b32_e32 v18, 16, v18
	s_nop 0
	v_cndmask_b32_e32 v17, v20, v21, vcc
	v_bfe_u32 v20, v16, 16, 1
	v_add3_u32 v20, v20, v16, s10
	v_or_b32_e32 v21, 0x400000, v16
	v_cmp_u_f32_e32 vcc, v16, v16
	v_lshrrev_b32_e32 v17, 16, v17
	s_nop 0
	v_cndmask_b32_e32 v16, v20, v21, vcc
	v_lshrrev_b32_e32 v16, 16, v16
	buffer_store_short v16, v112, s[0:3], s23 offen
	buffer_store_short v17, v112, s[0:3], s24 offen
	buffer_store_short v18, v112, s[0:3], s25 offen
	buffer_store_short v19, v112, s[0:3], s26 offen
	v_bfe_u32 v16, v15, 16, 1
	v_add3_u32 v16, v16, v15, s10
	v_or_b32_e32 v17, 0x400000, v15
	v_cmp_u_f32_e32 vcc, v15, v15
	s_nop 1
	v_cndmask_b32_e32 v15, v16, v17, vcc
	v_bfe_u32 v16, v14, 16, 1
	v_add3_u32 v16, v16, v14, s10
	v_or_b32_e32 v17, 0x400000, v14
	v_cmp_u_f32_e32 vcc, v14, v14
	v_lshrrev_b32_e32 v15, 16, v15
	s_nop 0
	v_cndmask_b32_e32 v14, v16, v17, vcc
	v_bfe_u32 v16, v13, 16, 1
	v_add3_u32 v16, v16, v13, s10
	v_or_b32_e32 v17, 0x400000, v13
	v_cmp_u_f32_e32 vcc, v13, v13
	v_lshrrev_b32_e32 v14, 16, v14
	s_nop 0
	v_cndmask_b32_e32 v13, v16, v17, vcc
	v_bfe_u32 v16, v12, 16, 1
	v_add3_u32 v16, v16, v12, s10
	v_or_b32_e32 v17, 0x400000, v12
	v_cmp_u_f32_e32 vcc, v12, v12
	v_lshrrev_b32_e32 v13, 16, v13
	s_nop 0
	v_cndmask_b32_e32 v12, v16, v17, vcc
	v_lshrrev_b32_e32 v12, 16, v12
	buffer_store_short v12, v124, s[0:3], s27 offen
	buffer_store_short v13, v124, s[0:3], s28 offen
	buffer_store_short v14, v124, s[0:3], s30 offen
	buffer_store_short v15, v124, s[0:3], s29 offen
	v_bfe_u32 v12, v11, 16, 1
	v_add3_u32 v12, v12, v11, s10
	v_or_b32_e32 v13, 0x400000, v11
	v_cmp_u_f32_e32 vcc, v11, v11
	s_nop 1
	v_cndmask_b32_e32 v11, v12, v13, vcc
	v_bfe_u32 v12, v10, 16, 1
	v_add3_u32 v12, v12, v10, s10
	v_or_b32_e32 v13, 0x400000, v10
	v_cmp_u_f32_e32 vcc, v10, v10
	v_lshrrev_b32_e32 v11, 16, v11
	s_nop 0
	v_cndmask_b32_e32 v10, v12, v13, vcc
	v_bfe_u32 v12, v9, 16, 1
	v_add3_u32 v12, v12, v9, s10
	v_or_b32_e32 v13, 0x400000, v9
	v_cmp_u_f32_e32 vcc, v9, v9
	v_lshrrev_b32_e32 v10, 16, v10
	s_nop 0
	v_cndmask_b32_e32 v9, v12, v13, vcc
	v_bfe_u32 v12, v8, 16, 1
	v_add3_u32 v12, v12, v8, s10
	v_or_b32_e32 v13, 0x400000, v8
	v_cmp_u_f32_e32 vcc, v8, v8
	v_lshrrev_b32_e32 v9, 16, v9
	s_nop 0
	v_cndmask_b32_e32 v8, v12, v13, vcc
	v_lshrrev_b32_e32 v8, 16, v8
	buffer_store_short v8, v120, s[0:3], s27 offen
	buffer_store_short v9, v120, s[0:3], s28 offen
	buffer_store_short v10, v120, s[0:3], s30 offen
	buffer_store_short v11, v120, s[0:3], s29 offen
	v_bfe_u32 v8, v7, 16, 1
	v_add3_u32 v8, v8, v7, s10
	v_or_b32_e32 v9, 0x400000, v7
	v_cmp_u_f32_e32 vcc, v7, v7
	s_nop 1
	v_cndmask_b32_e32 v7, v8, v9, vcc
	v_bfe_u32 v8, v6, 16, 1
	v_add3_u32 v8, v8, v6, s10
	v_or_b32_e32 v9, 0x400000, v6
	v_cmp_u_f32_e32 vcc, v6, v6
	v_lshrrev_b32_e32 v7, 16, v7
	s_nop 0
	v_cndmask_b32_e32 v6, v8, v9, vcc
	v_bfe_u32 v8, v5, 16, 1
	v_add3_u32 v8, v8, v5, s10
	v_or_b32_e32 v9, 0x400000, v5
	v_cmp_u_f32_e32 vcc, v5, v5
	v_lshrrev_b32_e32 v6, 16, v6
	s_nop 0
	v_cndmask_b32_e32 v5, v8, v9, vcc
	v_bfe_u32 v8, v4, 16, 1
	v_add3_u32 v8, v8, v4, s10
	v_or_b32_e32 v9, 0x400000, v4
	v_cmp_u_f32_e32 vcc, v4, v4
	v_lshrrev_b32_e32 v5, 16, v5
	s_nop 0
	v_cndmask_b32_e32 v4, v8, v9, vcc
	v_lshrrev_b32_e32 v4, 16, v4
	buffer_store_short v4, v116, s[0:3], s27 offen
	buffer_store_short v5, v116, s[0:3], s28 offen
	buffer_store_short v6, v116, s[0:3], s30 offen
	buffer_store_short v7, v116, s[0:3], s29 offen
	v_bfe_u32 v4, v3, 16, 1
	v_add3_u32 v4, v4, v3, s10
	v_or_b32_e32 v5, 0x400000, v3
	v_cmp_u_f32_e32 vcc, v3, v3
	s_nop 1
	v_cndmask_b32_e32 v3, v4, v5, vcc
	v_bfe_u32 v4, v2, 16, 1
	v_add3_u32 v4, v4, v2, s10
	v_or_b32_e32 v5, 0x400000, v2
	v_cmp_u_f32_e32 vcc, v2, v2
	v_lshrrev_b32_e32 v3, 16, v3
	s_nop 0
	v_cndmask_b32_e32 v2, v4, v5, vcc
	v_bfe_u32 v4, v1, 16, 1
	v_add3_u32 v4, v4, v1, s10
	v_or_b32_e32 v5, 0x400000, v1
	v_cmp_u_f32_e32 vcc, v1, v1
	v_lshrrev_b32_e32 v2, 16, v2
	s_nop 0
	v_cndmask_b32_e32 v1, v4, v5, vcc
	v_bfe_u32 v4, v0, 16, 1
	v_add3_u32 v4, v4, v0, s10
	v_or_b32_e32 v5, 0x400000, v0
	v_cmp_u_f32_e32 vcc, v0, v0
	v_lshrrev_b32_e32 v1, 16, v1
	s_nop 0
	v_cndmask_b32_e32 v0, v4, v5, vcc
	v_lshrrev_b32_e32 v0, 16, v0
	buffer_store_short v0, v112, s[0:3], s27 offen
	buffer_store_short v1, v112, s[0:3], s28 offen
	buffer_store_short v2, v112, s[0:3], s30 offen
	buffer_store_short v3, v112, s[0:3], s29 offen
	s_cbranch_scc1 .LBB0_14
	s_barrier
.LBB0_14:
	s_endpgm
	.section	.rodata,"a",@progbits
	.p2align	6, 0x0
	.amdhsa_kernel _ZN14eight_clusters6kernelENS_7globalsE
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 80
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 0
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 0
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 224
		.amdhsa_next_free_sgpr 32
		.amdhsa_accum_offset 224
		.amdhsa_reserve_vcc 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	_ZN14eight_clusters6kernelENS_7globalsE, .Lfunc_end0-_ZN14eight_clusters6kernelENS_7globalsE
	.set _ZN14eight_clusters6kernelENS_7globalsE.num_vgpr, 224
	.set _ZN14eight_clusters6kernelENS_7globalsE.num_agpr, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.numbered_sgpr, 32
	.set _ZN14eight_clusters6kernelENS_7globalsE.num_named_barrier, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.private_seg_size, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.uses_vcc, 1
	.set _ZN14eight_clusters6kernelENS_7globalsE.uses_flat_scratch, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.has_dyn_sized_stack, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.has_recursion, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.has_indirect_call, 0
	.section	.AMDGPU.csdata,"",@progbits
	.text
	.p2alignl 6, 3212836864
	.fill 256, 4, 3212836864
	.section	.AMDGPU.gpr_maximums,"",@progbits
	.set amdgpu.max_num_vgpr, 0
	.set amdgpu.max_num_agpr, 0
	.set amdgpu.max_num_sgpr, 0
	.set amdgpu.max_num_named_barrier, 0
	.text
	.type	__hip_cuid_,@object
	.section	.bss,"aw",@nobits
	.globl	__hip_cuid_
__hip_cuid_:
	.byte	0
	.size	__hip_cuid_, 1
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .offset:         0
        .size:           80
        .value_kind:     by_value
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 80
    .max_flat_workgroup_size: 512
    .name:           _ZN14eight_clusters6kernelENS_7globalsE
    .private_segment_fixed_size: 0
    .sgpr_count:     38
    .sgpr_spill_count: 0
    .symbol:         _ZN14eight_clusters6kernelENS_7globalsE.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     224
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
