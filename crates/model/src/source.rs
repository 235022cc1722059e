//! Where results come from that Windhover did not measure itself.

words! {
    /// How a result came to be that is not Windhover's own.
    pub enum SourceKind {
        /// Read from what another tool wrote (`windhover import`).
        Imported = "imported",
        /// Measured by a foreign worker, recorded and judged here.
        Foreign = "foreign",
    }
}

/// The factor that names the source in cells, rows and labels: `imported:cyclictest`, `foreign:udp-pingpong`.
pub const FACTOR: &str = "source";

/// Who measured, and what that leaves unknown. What a source does not tell is absent from the result.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Source {
    /// How the result came to be.
    pub kind: SourceKind,
    /// The tool, or the name that the foreign worker gives itself.
    pub tool: String,
    /// Its version, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The file that it was read from, or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Width of the tool's bins (or the unit of its times) in ns, where that is more than 1: no figure is finer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin_ns: Option<u64>,
    /// Values beyond the tool's last bin: only their number is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflowed: Option<u64>,
}

impl Source {
    /// The value of [`FACTOR`].
    pub fn factor(&self) -> String {
        format!("{}:{}", self.kind, self.tool)
    }
}

/// A value of [`FACTOR`] in words: `imported from cyclictest`, `foreign worker udp-pingpong`.
pub fn in_words(factor: &str) -> String {
    let leads = [(SourceKind::Imported, "imported from"), (SourceKind::Foreign, "foreign worker")];
    let of = |(kind, words): (SourceKind, &str)| {
        let tool = factor.strip_prefix(kind.word())?.strip_prefix(':')?;
        Some(format!("{words} {tool}"))
    };
    leads.into_iter().find_map(of).unwrap_or_else(|| factor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_reads_as_words() {
        let source =
            |kind| Source { kind, tool: "a:b".to_owned(), version: None, file: None, bin_ns: None, overflowed: None };
        assert_eq!(in_words(&source(SourceKind::Imported).factor()), "imported from a:b");
        assert_eq!(in_words(&source(SourceKind::Foreign).factor()), "foreign worker a:b");
        assert_eq!(in_words("other"), "other");
    }
}
