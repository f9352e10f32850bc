# Adds gfx1201 (RDNA4, RX 9070), which Mesa's shim lacks, to its src/amd/drm-shim/amdgpu_devices.c: the entry of navi31 with
# the name, family, revision and numbers of that GPU. What else navi31 says of memory and clocks says nothing to a compiler.
/^   \{$/ { block = "" }
{ print; block = block $0 "\n" }
/^   \},$/ && block ~ /name = "navi31"/ {
    gsub(/navi31/, "gfx1201", block)
    gsub(/CHIP_NAVI31/, "CHIP_GFX1201", block)
    gsub(/version_major = 11/, "version_major = 12", block)
    gsub(/ip_discovery_version = 0xb0000/, "ip_discovery_version = 0xc0001", block)
    gsub(/GC_11_0_0/, "GC_12_0_0", block)
    sub(/device_id = 0x744c/, "device_id = 0x7550", block)
    sub(/external_rev = 0x01/, "external_rev = 0x51", block)
    sub(/num_shader_engines = 6/, "num_shader_engines = 4", block)
    sub(/cu_active_number = 96/, "cu_active_number = 64", block)
    printf "%s", block
}
