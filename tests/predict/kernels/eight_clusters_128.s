; What tkgen generated for gfx942 from eight_clusters.tk with BLOCK=128, without debug lines.
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
	s_lshr_b32 s3, s3, 25
	s_lshr_b32 s9, s9, 25
	s_add_i32 s3, s6, s3
	s_sub_i32 s2, s2, s19
	s_ashr_i32 s15, s3, 7
	s_add_i32 s3, s12, s9
	s_bfe_i32 s20, s2, 0x80000
	s_ashr_i32 s3, s3, 7
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
	s_lshl_b32 s25, s3, 7
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
	s_add_i32 s7, s3, s7
	s_lshl_b64 s[20:21], s[20:21], 1
	v_lshrrev_b32_e32 v18, 3, v0
	s_mul_i32 s6, s6, s22
	s_add_u32 s4, s4, s20
	v_mov_b64_e32 v[10:11], 0xfffffffc
	v_lshrrev_b32_e32 v32, 2, v0
	v_and_b32_e32 v19, 56, v18
	s_addc_u32 s3, s5, s21
	v_cmp_lt_u64_e32 vcc, s[6:7], v[10:11]
	v_and_b32_e32 v1, 32, v0
	v_lshlrev_b32_e32 v2, 3, v0
	v_and_or_b32 v12, v32, 7, v19
	s_and_b64 s[20:21], vcc, exec
	v_and_or_b32 v1, v2, 24, v1
	v_mul_lo_u32 v2, v12, s8
	v_or_b32_e32 v13, 64, v12
	s_cselect_b32 s6, s6, -4
	s_and_b32 s5, s3, 0xffff
	s_mov_b32 s7, 0x20000
	v_add_lshl_u32 v37, v2, v1, 1
	v_mul_lo_u32 v2, v13, s8
	v_add_lshl_u32 v38, v2, v1, 1
	buffer_load_dwordx4 v[2:5], v37, s[4:7], 0 offen
	buffer_load_dwordx4 v[6:9], v38, s[4:7], 0 offen
	s_waitcnt lgkmcnt(0)
	s_lshl_b32 s3, s19, 7
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
	v_cmp_lt_u64_e32 vcc, s[2:3], v[10:11]
	s_and_b64 s[10:11], vcc, exec
	v_mul_lo_u32 v10, v12, s14
	s_cselect_b32 s22, s2, -4
	s_and_b32 s21, s12, 0xffff
	s_mov_b32 s23, s7
	v_add_lshl_u32 v39, v10, v1, 1
	v_mul_lo_u32 v10, v13, s14
	v_add_lshl_u32 v40, v10, v1, 1
	buffer_load_dwordx4 v[10:13], v39, s[20:23], 0 offen
	buffer_load_dwordx4 v[14:17], v40, s[20:23], 0 offen
	s_waitcnt lgkmcnt(0)
	v_lshlrev_b32_e32 v33, 1, v0
	v_and_b32_e32 v1, 4, v32
	v_and_b32_e32 v20, 4, v0
	v_lshlrev_b32_e32 v22, 2, v0
	v_and_or_b32 v21, v33, 2, v20
	v_lshl_or_b32 v23, v0, 8, v22
	v_and_or_b32 v19, v32, 6, v19
	v_and_or_b32 v1, v18, 3, v1
	v_and_b32_e32 v23, 0x2008, v23
	v_lshlrev_b32_e32 v18, 6, v19
	v_xor_b32_e32 v19, v1, v21
	v_lshlrev_b32_e32 v19, 4, v19
	v_add3_u32 v18, v23, 0, v18
	v_add_u32_e32 v41, v18, v19
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v41, v[2:3], v[6:7] offset1:8
	v_or_b32_e32 v2, 1, v21
	v_xor_b32_e32 v1, v2, v1
	v_lshlrev_b32_e32 v1, 4, v1
	v_add_u32_e32 v42, v18, v1
	ds_write2st64_b64 v42, v[4:5], v[8:9] offset1:8
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v41, v[10:11], v[14:15] offset0:32 offset1:40
	ds_write2st64_b64 v42, v[12:13], v[16:17] offset0:32 offset1:40
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_barrier
	v_lshrrev_b32_e32 v1, 4, v0
	v_lshrrev_b32_e32 v2, 1, v0
	v_and_b32_e32 v3, 4, v22
	v_and_or_b32 v2, v2, 3, v20
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
	v_lshl_add_u32 v35, s9, 11, v0
	v_lshl_add_u32 v0, s24, 11, v0
	s_cbranch_scc1 .LBB0_5
	v_add_u32_e32 v36, 0x1000, v35
	v_add_u32_e32 v34, 0x4000, v0
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
	s_branch .LBB0_8
.LBB0_5:
	s_load_dwordx2 s[0:1], s[0:1], 0x40
.LBB0_6:
	s_ashr_i32 s2, s8, 31
	s_lshr_b32 s2, s2, 26
	s_add_i32 s2, s8, s2
	s_ashr_i32 s2, s2, 6
	s_max_i32 s2, s2, 2
	v_add_u32_e32 v34, 0x4000, v0
	v_add_u32_e32 v36, 0x1000, v35
	s_add_i32 s2, s2, -1
	s_movk_i32 s3, 0x80
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
	v_add_u32_e32 v43, 8, v35
.LBB0_7:
	buffer_load_dwordx4 v[44:47], v37, s[4:7], s3 offen
	buffer_load_dwordx4 v[48:51], v38, s[4:7], s3 offen
	ds_read2st64_b64 v[52:55], v35 offset1:2
	ds_read2st64_b64 v[56:59], v35 offset0:8 offset1:10
	ds_read2st64_b64 v[60:63], v34 offset1:2
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[52:53], v[60:61], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[52:53], v[62:63], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[54:55], v[60:61], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[54:55], v[62:63], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[56:57], v[60:61], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[56:57], v[62:63], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[58:59], v[60:61], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[58:59], v[62:63], v[0:3]
	s_setprio 0
	s_barrier
	ds_read2_b64 v[52:55], v35 offset0:1 offset1:129
	ds_read2st64_b64 v[56:59], v43 offset0:8 offset1:10
	ds_read2_b64 v[60:63], v34 offset0:1 offset1:129
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[52:53], v[60:61], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[52:53], v[62:63], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[54:55], v[60:61], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[54:55], v[62:63], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[56:57], v[60:61], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[56:57], v[62:63], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[58:59], v[60:61], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[58:59], v[62:63], v[0:3]
	s_setprio 0
	s_barrier
	buffer_load_dwordx4 v[52:55], v39, s[20:23], s3 offen
	buffer_load_dwordx4 v[56:59], v40, s[20:23], s3 offen
	ds_read_b128 v[60:63], v35 offset:8192
	ds_read_b128 v[64:67], v35 offset:9216
	ds_read_b128 v[68:71], v35 offset:12288
	ds_read_b128 v[72:75], v35 offset:13312
	ds_read_b128 v[76:79], v34 offset:8192
	ds_read_b128 v[80:83], v34 offset:9216
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[60:61], v[76:77], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[60:61], v[80:81], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[64:65], v[76:77], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[64:65], v[80:81], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[68:69], v[76:77], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[68:69], v[80:81], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[72:73], v[76:77], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[72:73], v[80:81], v[0:3]
	s_setprio 0
	s_barrier
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v41, v[44:45], v[48:49] offset1:8
	ds_write2st64_b64 v42, v[46:47], v[50:51] offset1:8
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v41, v[52:53], v[56:57] offset0:32 offset1:40
	ds_write2st64_b64 v42, v[54:55], v[58:59] offset0:32 offset1:40
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[62:63], v[78:79], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[62:63], v[82:83], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[66:67], v[78:79], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[66:67], v[82:83], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[70:71], v[78:79], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[70:71], v[82:83], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[74:75], v[78:79], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[74:75], v[82:83], v[0:3]
	s_setprio 0
	s_barrier
	s_add_i32 s2, s2, -1
	s_addk_i32 s3, 0x80
	s_cmp_eq_u32 s2, 0
	s_cbranch_scc0 .LBB0_7
.LBB0_8:
	ds_read2st64_b64 v[38:41], v35 offset1:8
	ds_read_b64 v[46:47], v35 offset:1024
	ds_read_b64 v[48:49], v36 offset:1024
	ds_read2st64_b64 v[42:45], v34 offset1:2
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[38:39], v[42:43], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[38:39], v[44:45], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[46:47], v[42:43], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[46:47], v[44:45], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[40:41], v[42:43], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[40:41], v[44:45], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[48:49], v[42:43], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[48:49], v[44:45], v[0:3]
	s_setprio 0
	v_add_u32_e32 v37, 8, v35
	ds_read2st64_b64 v[38:41], v37 offset1:8
	ds_read_b64 v[46:47], v35 offset:1032
	ds_read_b64 v[48:49], v36 offset:1032
	ds_read2_b64 v[42:45], v34 offset0:1 offset1:129
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[38:39], v[42:43], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[38:39], v[44:45], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[46:47], v[42:43], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[46:47], v[44:45], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[40:41], v[42:43], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[40:41], v[44:45], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[48:49], v[42:43], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[48:49], v[44:45], v[0:3]
	s_setprio 0
	ds_read_b128 v[38:41], v35 offset:8192
	ds_read_b128 v[42:45], v35 offset:9216
	ds_read_b128 v[46:49], v36 offset:8192
	ds_read_b128 v[50:53], v36 offset:9216
	ds_read_b128 v[54:57], v34 offset:8192
	ds_read_b128 v[34:37], v34 offset:9216
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[38:39], v[54:55], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[38:39], v[34:35], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[42:43], v[54:55], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[42:43], v[34:35], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[46:47], v[54:55], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[46:47], v[34:35], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[50:51], v[54:55], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[50:51], v[34:35], v[0:3]
	s_setprio 0
	s_waitcnt lgkmcnt(0)
	s_setprio 1
	v_mfma_f32_16x16x16_bf16 v[28:31], v[40:41], v[56:57], v[28:31]
	v_mfma_f32_16x16x16_bf16 v[24:27], v[40:41], v[36:37], v[24:27]
	v_mfma_f32_16x16x16_bf16 v[20:23], v[44:45], v[56:57], v[20:23]
	v_mfma_f32_16x16x16_bf16 v[16:19], v[44:45], v[36:37], v[16:19]
	v_mfma_f32_16x16x16_bf16 v[12:15], v[48:49], v[56:57], v[12:15]
	v_mfma_f32_16x16x16_bf16 v[8:11], v[48:49], v[36:37], v[8:11]
	v_mfma_f32_16x16x16_bf16 v[4:7], v[52:53], v[56:57], v[4:7]
	v_mfma_f32_16x16x16_bf16 v[0:3], v[52:53], v[36:37], v[0:3]
	s_setprio 0
	s_lshl_b32 s2, s9, 5
	s_add_i32 s23, s25, s2
	s_lshl_b64 s[8:9], s[0:1], 1
	s_sub_i32 s4, s18, s23
	s_mov_b64 s[2:3], 0
	s_cmp_gt_i32 s4, 0
	s_mov_b64 s[6:7], 0
	s_cbranch_scc0 .LBB0_10
	s_mul_i32 s3, s9, s4
	s_mul_hi_u32 s5, s8, s4
	s_add_i32 s5, s5, s3
	s_mul_i32 s4, s8, s4
	v_mov_b64_e32 v[34:35], 0x7fffff00
	v_cmp_lt_u64_e32 vcc, s[4:5], v[34:35]
	s_and_b64 s[6:7], vcc, exec
	s_cselect_b32 s6, s4, 0x7fffff00
.LBB0_10:
	v_and_b32_e32 v34, 12, v32
	v_and_b32_e32 v32, 30, v33
	v_bfe_u32 v33, v31, 16, 1
	s_movk_i32 s10, 0x7fff
	v_add3_u32 v33, v33, v31, s10
	v_or_b32_e32 v35, 0x400000, v31
	v_cmp_u_f32_e32 vcc, v31, v31
	s_lshl_b32 s4, s19, 8
	s_lshl_b32 s5, s24, 6
	v_cndmask_b32_e32 v31, v33, v35, vcc
	v_lshrrev_b32_e32 v33, 16, v31
	v_bfe_u32 v31, v30, 16, 1
	v_add3_u32 v31, v31, v30, s10
	v_or_b32_e32 v35, 0x400000, v30
	v_cmp_u_f32_e32 vcc, v30, v30
	s_or_b32 s11, s4, s5
	s_ashr_i32 s4, s23, 31
	v_cndmask_b32_e32 v30, v31, v35, vcc
	s_mul_hi_u32 s5, s0, s23
	s_mul_i32 s4, s0, s4
	v_lshrrev_b32_e32 v35, 16, v30
	v_bfe_u32 v30, v29, 16, 1
	s_add_i32 s4, s5, s4
	s_mul_i32 s5, s1, s23
	v_add3_u32 v30, v30, v29, s10
	v_or_b32_e32 v31, 0x400000, v29
	v_cmp_u_f32_e32 vcc, v29, v29
	s_lshl_b32 s3, s0, 1
	s_add_i32 s5, s4, s5
	s_mul_i32 s4, s0, s23
	v_cndmask_b32_e32 v29, v30, v31, vcc
	v_bfe_u32 v30, v28, 16, 1
	s_sub_i32 s19, s3, s11
	s_lshl_b64 s[4:5], s[4:5], 1
	v_add3_u32 v30, v30, v28, s10
	v_or_b32_e32 v31, 0x400000, v28
	v_cmp_u_f32_e32 vcc, v28, v28
	s_add_u32 s4, s16, s4
	s_addc_u32 s5, s17, s5
	v_cndmask_b32_e32 v28, v30, v31, vcc
	v_mad_u64_u32 v[30:31], s[20:21], s3, v34, v[32:33]
	v_bfrev_b32_e32 v31, 1
	v_cmp_gt_i32_e32 vcc, s19, v32
	s_and_b32 s5, s5, 0xffff
	s_mov_b32 s7, 0x20000
	s_mul_i32 s14, s0, 6
	v_lshrrev_b32_e32 v29, 16, v29
	v_lshrrev_b32_e32 v36, 16, v28
	v_cndmask_b32_e32 v28, v31, v30, vcc
	s_add_i32 s12, s3, s11
	s_lshl2_add_u32 s13, s0, s11
	s_add_i32 s14, s14, s11
	buffer_store_short v36, v28, s[4:7], s11 offen
	buffer_store_short v29, v28, s[4:7], s12 offen
	buffer_store_short v35, v28, s[4:7], s13 offen
	buffer_store_short v33, v28, s[4:7], s14 offen
	v_or_b32_e32 v29, 32, v32
	v_bfe_u32 v32, v27, 16, 1
	v_add3_u32 v32, v32, v27, s10
	v_or_b32_e32 v33, 0x400000, v27
	v_cmp_u_f32_e32 vcc, v27, v27
	s_mul_i32 s20, s0, 34
	s_mul_i32 s22, s0, 36
	v_cndmask_b32_e32 v27, v32, v33, vcc
	v_bfe_u32 v32, v26, 16, 1
	v_add3_u32 v32, v32, v26, s10
	v_or_b32_e32 v33, 0x400000, v26
	v_cmp_u_f32_e32 vcc, v26, v26
	v_lshrrev_b32_e32 v27, 16, v27
	s_mul_i32 s21, s0, 38
	v_cndmask_b32_e32 v26, v32, v33, vcc
	v_bfe_u32 v32, v25, 16, 1
	v_add3_u32 v32, v32, v25, s10
	v_or_b32_e32 v33, 0x400000, v25
	v_cmp_u_f32_e32 vcc, v25, v25
	v_lshrrev_b32_e32 v26, 16, v26
	s_add_i32 s20, s20, s11
	v_cndmask_b32_e32 v25, v32, v33, vcc
	v_bfe_u32 v32, v24, 16, 1
	v_add3_u32 v32, v32, v24, s10
	v_or_b32_e32 v33, 0x400000, v24
	v_cmp_u_f32_e32 vcc, v24, v24
	v_lshrrev_b32_e32 v25, 16, v25
	s_add_i32 s22, s22, s11
	v_cndmask_b32_e32 v24, v32, v33, vcc
	v_lshrrev_b32_e32 v32, 16, v24
	v_add_u32_e32 v24, 32, v30
	v_cmp_gt_i32_e32 vcc, s19, v29
	s_lshl_b32 s19, s0, 5
	s_add_i32 s19, s19, s11
	v_cndmask_b32_e32 v24, v31, v24, vcc
	buffer_store_short v32, v24, s[4:7], s11 offen
	buffer_store_short v25, v24, s[4:7], s12 offen
	buffer_store_short v26, v24, s[4:7], s13 offen
	buffer_store_short v27, v24, s[4:7], s14 offen
	v_bfe_u32 v25, v23, 16, 1
	v_add3_u32 v25, v25, v23, s10
	v_or_b32_e32 v26, 0x400000, v23
	v_cmp_u_f32_e32 vcc, v23, v23
	s_add_i32 s21, s21, s11
	s_add_i32 s23, s23, 64
	v_cndmask_b32_e32 v23, v25, v26, vcc
	v_bfe_u32 v25, v22, 16, 1
	v_add3_u32 v25, v25, v22, s10
	v_or_b32_e32 v26, 0x400000, v22
	v_cmp_u_f32_e32 vcc, v22, v22
	v_lshrrev_b32_e32 v23, 16, v23
	s_sub_i32 s3, s18, s23
	v_cndmask_b32_e32 v22, v25, v26, vcc
	v_bfe_u32 v25, v21, 16, 1
	v_add3_u32 v25, v25, v21, s10
	v_or_b32_e32 v26, 0x400000, v21
	v_cmp_u_f32_e32 vcc, v21, v21
	v_lshrrev_b32_e32 v22, 16, v22
	s_cmp_lt_i32 s3, 1
	v_cndmask_b32_e32 v21, v25, v26, vcc
	v_bfe_u32 v25, v20, 16, 1
	v_add3_u32 v25, v25, v20, s10
	v_or_b32_e32 v26, 0x400000, v20
	v_cmp_u_f32_e32 vcc, v20, v20
	v_lshrrev_b32_e32 v21, 16, v21
	s_nop 0
	v_cndmask_b32_e32 v20, v25, v26, vcc
	v_lshrrev_b32_e32 v20, 16, v20
	buffer_store_short v20, v28, s[4:7], s19 offen
	buffer_store_short v21, v28, s[4:7], s20 offen
	buffer_store_short v22, v28, s[4:7], s22 offen
	buffer_store_short v23, v28, s[4:7], s21 offen
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
	buffer_store_short v16, v24, s[4:7], s19 offen
	buffer_store_short v17, v24, s[4:7], s20 offen
	buffer_store_short v18, v24, s[4:7], s22 offen
	buffer_store_short v19, v24, s[4:7], s21 offen
	s_cbranch_scc1 .LBB0_12
	s_mul_i32 s2, s9, s3
	s_mul_hi_u32 s4, s8, s3
	s_add_i32 s5, s4, s2
	s_mul_i32 s4, s8, s3
	v_mov_b64_e32 v[16:17], 0x7fffff00
	v_cmp_lt_u64_e32 vcc, s[4:5], v[16:17]
	s_and_b64 s[2:3], vcc, exec
	s_cselect_b32 s2, s4, 0x7fffff00
.LBB0_12:
	v_bfe_u32 v16, v15, 16, 1
	v_add3_u32 v16, v16, v15, s10
	v_or_b32_e32 v17, 0x400000, v15
	v_cmp_u_f32_e32 vcc, v15, v15
	s_ashr_i32 s3, s23, 31
	s_mul_hi_u32 s4, s0, s23
	v_cndmask_b32_e32 v15, v16, v17, vcc
	v_bfe_u32 v16, v14, 16, 1
	s_mul_i32 s3, s0, s3
	v_add3_u32 v16, v16, v14, s10
	v_or_b32_e32 v17, 0x400000, v14
	v_cmp_u_f32_e32 vcc, v14, v14
	s_add_i32 s3, s4, s3
	s_mul_i32 s1, s1, s23
	v_cndmask_b32_e32 v14, v16, v17, vcc
	v_bfe_u32 v16, v13, 16, 1
	s_add_i32 s1, s3, s1
	s_mul_i32 s0, s0, s23
	v_add3_u32 v16, v16, v13, s10
	v_or_b32_e32 v17, 0x400000, v13
	v_cmp_u_f32_e32 vcc, v13, v13
	s_lshl_b64 s[0:1], s[0:1], 1
	s_add_u32 s0, s16, s0
	v_cndmask_b32_e32 v13, v16, v17, vcc
	v_bfe_u32 v16, v12, 16, 1
	v_add3_u32 v16, v16, v12, s10
	v_or_b32_e32 v17, 0x400000, v12
	v_cmp_u_f32_e32 vcc, v12, v12
	s_addc_u32 s1, s17, s1
	s_and_b32 s1, s1, 0xffff
	v_cndmask_b32_e32 v12, v16, v17, vcc
	s_mov_b32 s3, s7
	v_lshrrev_b32_e32 v12, 16, v12
	v_lshrrev_b32_e32 v15, 16, v15
	v_lshrrev_b32_e32 v14, 16, v14
	v_lshrrev_b32_e32 v13, 16, v13
	buffer_store_short v12, v28, s[0:3], s11 offen
	buffer_store_short v13, v28, s[0:3], s12 offen
	buffer_store_short v14, v28, s[0:3], s13 offen
	buffer_store_short v15, v28, s[0:3], s14 offen
	v_bfe_u32 v12, v11, 16, 1
	v_add3_u32 v12, v12, v11, s10
	v_or_b32_e32 v13, 0x400000, v11
	v_cmp_u_f32_e32 vcc, v11, v11
	s_cmpk_gt_u32 s15, 0xff
	s_nop 0
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
	buffer_store_short v8, v24, s[0:3], s11 offen
	buffer_store_short v9, v24, s[0:3], s12 offen
	buffer_store_short v10, v24, s[0:3], s13 offen
	buffer_store_short v11, v24, s[0:3], s14 offen
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
	buffer_store_short v4, v28, s[0:3], s19 offen
	buffer_store_short v5, v28, s[0:3], s20 offen
	buffer_store_short v6, v28, s[0:3], s22 offen
	buffer_store_short v7, v28, s[0:3], s21 offen
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
	buffer_store_short v0, v24, s[0:3], s19 offen
	buffer_store_short v1, v24, s[0:3], s20 offen
	buffer_store_short v2, v24, s[0:3], s22 offen
	buffer_store_short v3, v24, s[0:3], s21 offen
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
		.amdhsa_next_free_vgpr 84
		.amdhsa_next_free_sgpr 26
		.amdhsa_accum_offset 84
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
	.set _ZN14eight_clusters6kernelENS_7globalsE.num_vgpr, 84
	.set _ZN14eight_clusters6kernelENS_7globalsE.num_agpr, 0
	.set _ZN14eight_clusters6kernelENS_7globalsE.numbered_sgpr, 26
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
    .sgpr_count:     32
    .sgpr_spill_count: 0
    .symbol:         _ZN14eight_clusters6kernelENS_7globalsE.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     84
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...
	.end_amdgpu_metadata
