"""AMD CDNA: ThunderKittens HIP C++ from a plan (`lower`), and the headers that it is compiled against (`kittens`)."""
