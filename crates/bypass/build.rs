//! Builds the preload library for this crate to embed, always optimized: it runs in programs of others.

use std::env::var_os;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::PathBuf;
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    for path in [
        "../shim",
        "../bypass-abi",
        "../descriptors",
        "../netlink",
        "../stack",
        "../user-stack",
        "../xsk",
        "../../Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    let variable = |name: &str| var_os(name).ok_or(format!("cargo sets no {name}"));
    let out = PathBuf::from(variable("OUT_DIR")?);
    let built = out.join("shim");
    let target = variable("TARGET")?;
    // Its own target folder: cargo holds the lock of the other one. What it needs, this crate needs: nothing is downloaded.
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .args(["build", "--package", "windhover-shim", "--profile", "shim", "--locked", "--offline", "--quiet"])
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&built);
    // Those of `cargo clippy`, which compiles nothing.
    for name in ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(name);
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the preload library cannot be built: cargo ended with {status}").into());
    }
    let bytes = std::fs::read(built.join(target).join("shim/libwindhover_shim.so"))?;
    let mut hash = DefaultHasher::new();
    hash.write(&bytes);
    println!("cargo::rustc-env=WINDHOVER_SHIM_HASH={:016x}", hash.finish());
    std::fs::write(out.join("shim.so"), bytes)?;
    Ok(())
}
