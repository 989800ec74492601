//! The committed gRPC code and descriptor are what the proto file says. `make generate` writes them anew.

use std::fs;

#[test]
fn grpc_code_is_current() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    coop_gen::generate(temp.path()).expect("code can be generated");
    for name in coop_gen::FILES {
        let expected = fs::read(temp.path().join(name)).expect("it was generated");
        let committed = fs::read(coop_gen::committed().join(name)).unwrap_or_default();
        assert!(committed == expected, "{name} is out of date; run `make generate` and commit it");
    }
}
