//! Writing a run directory.

use crate::journal::JournalWriter;
use crate::{CellFiles, Folder, Run, StoreError, cell, utc_text};
use model::{Finding, JournalLine, MachineFacts, RunDocument};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of a run directory that has the configurations of kernels.
const KERNELS: &str = "kernels";
pub(crate) const CELLS: &str = "cells";

/// Where a run directory has the configuration of a machine's kernel; `None` without a name that a file may have.
pub fn kernel_config_file(run: &Path, machine: &MachineFacts) -> Option<PathBuf> {
    kernel_config_name(machine).map(|name| run.join(KERNELS).join(name))
}

fn kernel_config_name(machine: &MachineFacts) -> Option<String> {
    let (release, id) = (machine.kernel_release.as_deref()?, machine.kernel_config_id.as_deref()?);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+~".contains(c);
    let is_plain = release.chars().all(plain) && !release.starts_with('.') && id.chars().all(|c| c.is_ascii_hexdigit());
    is_plain.then(|| format!("{release}-{id}.config"))
}

/// A run directory that this process writes; no other can meanwhile.
#[derive(Debug)]
pub struct RunDir {
    folder: Folder,
    cells: Folder,
    journal: JournalWriter,
    /// Cells that the run is to have.
    steps: u32,
}

impl RunDir {
    /// Makes `<parent>/<name>-<UTC time>/` with an empty journal, and takes its lock. `utc_ns`: wall clock since 1970.
    /// `parent` is made where it is missing. Errors: [`StoreError::Exists`] rather than touching a directory that is there;
    /// [`StoreError::Name`]; [`StoreError::DiskFull`] and [`StoreError::Write`], which leave nothing behind.
    pub fn create(parent: &Path, name: &str, utc_ns: u64) -> Result<Self, StoreError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(StoreError::Name(name.to_owned()));
        }
        let path = parent.join(format!("{name}-{}", utc_text(utc_ns)));
        fs::create_dir_all(parent).map_err(|cause| StoreError::writing(parent, cause))?;
        fs::create_dir(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists(path.clone()),
            _ => StoreError::writing(&path, cause),
        })?;
        let filled: Result<Self, StoreError> = (|| {
            let folder = Folder::open(&path)?;
            let cells = folder.within(CELLS)?;
            let journal = JournalWriter::create(&folder)?;
            folder.sync()?;
            Folder::open(parent)?.sync()?;
            Ok(Self { folder, cells, journal, steps: 0 })
        })();
        filled.inspect_err(|_| {
            let _ = fs::remove_dir_all(&path);
        })
    }

    /// Takes over a run that ended early: locks it, reads it, cuts off a torn journal line and removes incomplete files
    /// of the cell that was in flight. Errors: [`StoreError::Busy`] while another process writes it; [`StoreError::Link`] where its
    /// journal or the folder of its cells is one; else as [`Run::load`]. A missing plan is an error here.
    pub fn open_for_resume(path: &Path) -> Result<(Self, Run), StoreError> {
        if !path.join("run.json").exists() {
            return Err(StoreError::NotARun(path.to_owned()));
        }
        // Read before the lock too: a run that cannot be understood, or is of a newer format, must not be touched.
        Run::load(path)?;
        let plan = path.join("plan.toml");
        if !plan.is_file() {
            return Err(StoreError::NoPlan(plan));
        }
        // What somebody removed is measured again, as a killed run's missing cells are.
        let folder = Folder::open(path)?;
        let cells = folder.within(CELLS)?;
        let (journal, _) = JournalWriter::open(&folder)?;
        let run = Run::load(path)?;
        [&folder, &cells].into_iter().try_for_each(Folder::remove_incomplete)?;
        let steps = steps(&run.run);
        Ok((Self { folder, cells, journal, steps }, run))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `plan.toml`, the campaign as given. Errors: [`StoreError::DiskFull`], [`StoreError::Write`].
    pub fn write_plan(&self, text: &str) -> Result<(), StoreError> {
        self.folder.write_synced("plan.toml", text.as_bytes())
    }

    /// Writes `run.json`; an older one is replaced in one step. Configurations of kernels go into files of their own, each once
    /// (see [`kernel_config_file`](crate::kernel_config_file)). Errors: [`StoreError::DiskFull`], [`StoreError::Write`] (an older one
    /// is still whole then), [`StoreError::Encode`].
    pub fn write_run(&mut self, run: &RunDocument) -> Result<(), StoreError> {
        self.steps = steps(run);
        let mut run = run.clone();
        for machine in run.machines.values_mut() {
            let (name, text) = (kernel_config_name(machine), machine.kernel_config.take());
            if let (Some(name), Some(text)) = (name, text) {
                let kernels = self.folder.within(KERNELS)?;
                if !kernels.has(&name) {
                    kernels.write_synced(&name, text.as_bytes())?;
                }
            }
        }
        let mut text = serde_json::to_string_pretty(&run).map_err(|error| StoreError::encoding("run.json", &error))?;
        text.push('\n');
        self.folder.write_synced("run.json", text.as_bytes())
    }

    /// Appends a line to the journal and waits until it is on disk. `Done` lines are written by [`RunDir::write_cell`]. Errors:
    /// [`StoreError::DiskFull`], [`StoreError::Write`]; the lines before stay whole.
    pub fn journal(&mut self, line: &JournalLine) -> Result<(), StoreError> {
        self.journal.append(line)
    }

    /// Writes the files of a cell, waits until they are on disk, and then writes its `Done` line. `utc_ns`: wall clock since 1970.
    /// Raw samples are left out where the disk has no room, which the stored verdict says, with the finding that comes back. Errors:
    /// [`StoreError::DiskFull`], [`StoreError::Write`], [`StoreError::Encode`]; the cell is not done then.
    pub fn write_cell(
        &mut self,
        index: u32,
        files: &CellFiles<'_>,
        utc_ns: u64,
    ) -> Result<Option<Finding>, StoreError> {
        let journal = &mut self.journal;
        let to_come = self.steps.saturating_sub(index);
        cell::write(&self.cells, index, files, to_come, || journal.append(&JournalLine::Done { index, at_ns: utc_ns }))
    }

    /// Removes the whole directory again: for a run that ended before its first cell. Errors: [`StoreError::Write`].
    pub fn discard(self) -> Result<(), StoreError> {
        // Windows removes no folder of a file that is open.
        let path = self.path().to_owned();
        drop(self);
        fs::remove_dir_all(&path).map_err(|cause| StoreError::writing(&path, cause))
    }
}

fn steps(run: &RunDocument) -> u32 {
    u32::try_from(run.order.len()).unwrap_or(u32::MAX)
}
