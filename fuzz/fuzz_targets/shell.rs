#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| coop_fuzz::fuzz_shell(data));
