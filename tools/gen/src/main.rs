//! `cargo run -p coop-gen`: writes the committed gRPC code anew.

fn main() -> std::io::Result<()> {
    coop_gen::generate(&coop_gen::committed())
}
