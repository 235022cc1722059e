//! One compilation: by a compiler where there is one, else by a shell that does what a compiler does to a kernel.

use model::{CpuList, Policy};
use stats::SplitMix64;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use task::Launch;

const COMPILERS: [&str; 3] = ["cc", "gcc", "clang"];
/// A compiler that takes longer for an empty file is none for this purpose.
const TRIAL: Duration = Duration::from_secs(10);
/// Functions of the smallest unit and by how many more the biggest has: some tens of milliseconds of compiling.
const FUNCTIONS: u64 = 3;
const MORE_FUNCTIONS: u64 = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Toolchain {
    Compiler(&'static str),
    /// The shell and the tools that every system has.
    Shell,
    /// This program itself, on systems that have no shell: `windhover load-unit`.
    Own,
}

impl Toolchain {
    /// The first compiler that compiles a trial; the shell when none does.
    pub(super) fn find(folder: &Path, cpus: &CpuList) -> Self {
        let (input, output) = (folder.join("trial.c"), folder.join("trial.o"));
        if std::fs::write(&input, "int trial;\n").is_err() {
            return Self::Shell;
        }
        let works = |name: &&'static str| {
            let launch = Self::Compiler(name).compile(&input, &output).policy(Policy::Other).cpus(cpus.clone());
            launch.die_with_parent().finish(&[], TRIAL).is_ok_and(|done| done.status.success()) && output.exists()
        };
        let without = if Path::new("/bin/sh").exists() { Self::Shell } else { Self::Own };
        COMPILERS.iter().copied().find(works).map_or(without, Self::Compiler)
    }

    pub(super) fn method(&self) -> String {
        match self {
            Self::Compiler(name) => format!("{name} -O1 -c"),
            Self::Shell => "sh (no compiler found)".to_owned(),
            Self::Own => "windhover load-unit (no compiler and no shell found)".to_owned(),
        }
    }

    pub(super) fn compile(&self, input: &Path, output: &Path) -> Launch {
        match self {
            Self::Compiler(name) => Launch::new(*name).args(["-O1", "-w", "-c"]).arg(input).arg("-o").arg(output),
            // fork and exec of several tools, a megabyte touched twice, arithmetic, a file. Arguments need no quoting.
            Self::Shell => Launch::new("sh")
                .arg("-c")
                .arg(
                    r#"set -e; text=$(head -c 1000000 /dev/zero | tr '\0' x); n=0
                       while [ $n -lt 20000 ]; do n=$((n + 1)); done
                       printf '%s' "$text" | cat "$1" - | sort > "$2"; cksum "$2" > /dev/null"#,
                )
                .arg("compile")
                .arg(input)
                .arg(output),
            Self::Own => Launch::new("/proc/self/exe").arg("load-unit").arg(input).arg(output),
        }
    }
}

/// One unit without compiler and shell: a new process touches two megabytes twice, computes, and writes a file.
pub fn unit(input: &Path, output: &Path) -> std::io::Result<()> {
    const BYTES: usize = 2 << 20;
    let text = std::fs::read(input)?;
    let mut sum = text.iter().fold(1_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let mut pages = vec![text.first().copied().unwrap_or(1); BYTES];
    for line in pages.chunks_mut(64) {
        sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        line[0] = sum.to_le_bytes()[7];
    }
    std::fs::write(output, &pages[..BYTES / 2])
}

/// An endless supply of different C files; the same for the same number.
#[derive(Debug)]
pub(super) struct Source {
    random: SplitMix64,
}

impl Source {
    pub(super) fn new(number: u32) -> Self {
        Self { random: SplitMix64::new(u64::from(number).wrapping_mul(2).wrapping_add(1)) }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    /// The next file. Sizes differ, so that slots which start together do not stay in step.
    pub(super) fn next_unit(&mut self) -> String {
        let mut text = String::from("typedef unsigned long word;\n");
        let count = FUNCTIONS + self.random(MORE_FUNCTIONS);
        for number in 0..count {
            let [a, b, c, d] = std::array::from_fn(|_| self.random(1_000_000) + 2);
            let callee = if number == 0 { "x".to_owned() } else { format!("f{}(x + 1)", self.random(number)) };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "word f{number}(word x) {{\n word t[16], i, s = {a};\n for (i = 0; i < 16; i++) t[i] = x * {b} + i;\n \
                 for (i = 0; i < x % {c}; i++) {{\n  switch (s % 5) {{\n  case 0: s += t[i % 16] / {d}; break;\n  \
                 case 1: s ^= s << 3; t[s % 16]++; break;\n  case 2: s = s > {a} ? s - x : s + {b}; break;\n  \
                 case 3: if (t[i % 16] & 1) {{ s += {callee}; break; }}\n  default: s *= t[(i + s) % 16] | 1;\n  }}\n }}\n \
                 return s;\n}}\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn a_unit_without_compiler_writes_what_depends_on_its_input() {
        let scratch = scratch(None).unwrap();
        let made = |text: &str| {
            let (input, output) = (scratch.path().join("unit.c"), scratch.path().join("unit.o"));
            std::fs::write(&input, text).unwrap();
            unit(&input, &output).unwrap();
            std::fs::read(&output).unwrap()
        };
        let (one, other) = (made("int one;"), made("int other;"));
        assert!(one.len() >= 1_000_000 && one.len() == other.len() && one != other);
        assert!(unit(&scratch.path().join("none.c"), &scratch.path().join("none.o")).is_err());
    }

    #[test]
    fn units_differ_and_are_repeatable() {
        let mut source = Source::new(3);
        let (first, second) = (source.next_unit(), source.next_unit());
        assert_ne!(first, second);
        assert_eq!(first, Source::new(3).next_unit());
        assert_ne!(first, Source::new(4).next_unit());
    }

    #[test]
    fn both_toolchains_make_an_output() {
        let scratch = scratch(None).unwrap();
        let cpus = task::online_cpus().unwrap();
        let found = Toolchain::find(scratch.path(), &cpus);
        for toolchain in [found, Toolchain::Shell] {
            let (input, output) = (scratch.path().join("unit.c"), scratch.path().join("unit.o"));
            let _ = std::fs::remove_file(&output);
            std::fs::write(&input, Source::new(1).next_unit()).unwrap();
            let done = toolchain.compile(&input, &output).finish(&[], Duration::from_secs(60)).unwrap();
            assert!(done.status.success(), "{toolchain:?}: {}", String::from_utf8_lossy(&done.stderr));
            assert!(output.metadata().unwrap().len() > 0, "{toolchain:?}");
        }
    }
}
