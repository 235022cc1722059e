//! Files of settings in layers, as TOML: `extends` names built-in ones, or files beside the one that extends them.

use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// More layers than anybody needs.
const MOST_LAYERS: usize = 32;
/// A layer is a page of text.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// As `extends` names it.
    pub name: String,
    /// Its keys; `extends` is not among them.
    pub table: Table,
}

#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("there is no profile '{name}': the built-in ones are {known}; a file's name ends in .toml")]
    Unknown { name: String, known: String },
    #[error("profile {path}: cannot read: {cause}")]
    Unreadable { path: PathBuf, cause: std::io::Error },
    #[error("profile {path}: it is longer than 1 MiB")]
    Long { path: PathBuf },
    #[error("profile {name}: it extends itself by way of {by}")]
    Circle { name: String, by: String },
    #[error("profile {name}: {why}")]
    Malformed { name: String, why: String },
}

/// The text of a built-in layer by its name.
pub type BuiltIn = [(&'static str, &'static str)];

/// A built-in layer or a `.toml` file with all that it extends, the lowest first. One that is extended twice comes twice.
pub fn load(name: &str, built_in: &BuiltIn) -> Result<Vec<Layer>, LayerError> {
    let mut reader = Reader { built_in, with_files: true, open: Vec::new(), layers: Vec::new() };
    reader.add(name, Path::new(""))?;
    Ok(reader.layers)
}

/// The same for a text, which may extend built-in layers only.
pub fn parse(name: &str, text: &str, built_in: &BuiltIn) -> Result<Vec<Layer>, LayerError> {
    let mut reader = Reader { built_in, with_files: false, open: Vec::new(), layers: Vec::new() };
    reader.add_text(name, text, Path::new(""))?;
    Ok(reader.layers)
}

struct Reader<'a> {
    built_in: &'a BuiltIn,
    with_files: bool,
    /// Those that extend the one that is read.
    open: Vec<String>,
    layers: Vec<Layer>,
}

impl Reader<'_> {
    fn add(&mut self, name: &str, folder: &Path) -> Result<(), LayerError> {
        if self.open.iter().any(|open| open == name) || self.open.len() > MOST_LAYERS {
            return Err(LayerError::Circle { name: name.to_owned(), by: self.open.join(", ") });
        }
        if let Some((_, text)) = self.built_in.iter().find(|(known, _)| *known == name) {
            return self.add_text(name, text, folder);
        }
        if !self.with_files || Path::new(name).extension().is_none_or(|extension| extension != "toml") {
            let known: Vec<&str> = self.built_in.iter().map(|(name, _)| *name).collect();
            return Err(LayerError::Unknown { name: name.to_owned(), known: known.join(", ") });
        }
        let path = folder.join(name);
        let unreadable = |cause| LayerError::Unreadable { path: path.clone(), cause };
        if std::fs::metadata(&path).map_err(unreadable)?.len() > MOST_BYTES {
            return Err(LayerError::Long { path });
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        self.add_text(name, &text, path.parent().unwrap_or(folder))
    }

    fn add_text(&mut self, name: &str, text: &str, folder: &Path) -> Result<(), LayerError> {
        let malformed = |why| LayerError::Malformed { name: name.to_owned(), why };
        let mut table: Table =
            text.parse().map_err(|error: toml::de::Error| malformed(error.message().replace('\n', " ")))?;
        let below = extended(table.remove("extends"))
            .ok_or_else(|| malformed("extends is the name of a profile, or a list of names".to_owned()))?;
        self.open.push(name.to_owned());
        for layer in below {
            self.add(&layer, folder)?;
        }
        self.open.pop();
        self.layers.push(Layer { name: name.to_owned(), table });
        Ok(())
    }
}

fn extended(value: Option<Value>) -> Option<Vec<String>> {
    let text = |value: Value| if let Value::String(text) = value { Some(text) } else { None };
    match value {
        None => Some(Vec::new()),
        Some(Value::Array(several)) => several.into_iter().map(text).collect(),
        Some(one) => text(one).map(|name| vec![name]),
    }
}

/// A layer's name without its folder and `.toml`.
pub fn stem(name: &str) -> String {
    let file = Path::new(name).file_name().map_or_else(|| name.to_owned(), |file| file.to_string_lossy().into_owned());
    file.strip_suffix(".toml").map(str::to_owned).unwrap_or(file)
}
