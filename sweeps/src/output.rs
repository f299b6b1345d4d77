//! Where the report goes.
//!
//! The folder is tried out before the first run, since a sweep of an hour must not end with "permission denied". Each
//! file is written beside its place and renamed into it, so that whoever reads sees the old report or the new one and
//! never a half. What took a machine's time to make is replaced only where that was asked for.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::SweepError;
use crate::lock::Lock;
use crate::report::Report;
use crate::{charts, html, journal, markdown, reading};

/// What a sweep writes.
pub const REPORT_FILES: [&str; 4] = ["report.json", "report.md", "report.svg", "report.html"];

/// A folder that was found fit to take the report.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: Option<Lock>,
}

/// What a sweep may find in the folder for its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing of another sweep.
    Refuse,
    /// A sweep that goes on.
    Resume,
    /// Anything: it is thrown away.
    Replace,
}

impl Earlier {
    /// What `--resume` and `--force` ask for.
    pub fn of(resume: bool, force: bool) -> Earlier {
        match (resume, force) {
            (_, true) => Earlier::Replace,
            (true, false) => Earlier::Resume,
            (false, false) => Earlier::Refuse,
        }
    }

    /// Checks that nothing of another sweep lies in `folder` that was not asked to go.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] naming what lies there, and the options.
    pub fn check(self, folder: &Path) -> Result<(), SweepError> {
        if self != Earlier::Refuse {
            return Ok(());
        }
        let record = std::fs::read_to_string(folder.join(journal::NAME)).unwrap_or_default();
        let finished = match reading::report(folder) {
            Ok(report) => report.complete,
            // One of an older schema is a report all the same.
            Err(_) => record.is_empty() && folder.join(REPORT_FILES[0]).exists(),
        };
        let folder = folder.display();
        let why = match (finished, record.lines().count()) {
            (true, _) => format!(
                "'{folder}' holds the report of a finished sweep: give another folder with --out, or --force to replace it"
            ),
            (false, 0) => return Ok(()),
            (false, lines) => format!(
                "'{folder}' holds a sweep that was interrupted after {} runs: --resume goes on with it, --force throws it \
                 away, and --out takes another folder",
                lines - 1
            ),
        };
        Err(SweepError::Usage(why))
    }
}

impl Folder {
    /// Makes the folder where it does not exist, and tries to write a file in it. `names` are the files that will be
    /// written.
    ///
    /// # Errors
    ///
    /// [`SweepError::Output`] naming the folder, when it cannot be made or written.
    pub fn prepare(path: &Path, names: &[&str]) -> Result<Folder, SweepError> {
        let unfit = |source| SweepError::Output { path: path.into(), source };
        std::fs::create_dir_all(path).map_err(unfit)?;
        let mut trial = tempfile::NamedTempFile::new_in(path).map_err(unfit)?;
        trial.write_all(b"trial").map_err(unfit)?;
        for name in names {
            if path.join(name).is_dir() {
                return Err(SweepError::Output {
                    path: path.join(name),
                    source: std::io::Error::from(std::io::ErrorKind::IsADirectory),
                });
            }
        }
        Ok(Folder { path: path.into(), _lock: None })
    }

    /// The same, and keeps other processes from writing there for as long as this value lives.
    ///
    /// # Errors
    ///
    /// As [`Folder::prepare`]; [`SweepError::Usage`] when another process writes there.
    pub fn claim(path: &Path, names: &[&str]) -> Result<Folder, SweepError> {
        let folder = Folder::prepare(path, names)?;
        Ok(Folder { _lock: Some(Lock::take(path)?), ..folder })
    }

    /// Claims a folder for a sweep's report, and does with what lies there as `earlier` says.
    ///
    /// # Errors
    ///
    /// As [`Folder::claim`] and [`Earlier::check`].
    pub fn of_sweep(path: &Path, earlier: Earlier) -> Result<Folder, SweepError> {
        let folder = Folder::claim(path, &REPORT_FILES)?;
        earlier.check(path)?;
        if earlier == Earlier::Replace {
            // A picture of the old sweep must not lie next to the new one's report.
            for name in REPORT_FILES.into_iter().chain([journal::NAME]) {
                let path = path.join(name);
                match std::fs::remove_file(&path) {
                    Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                        return Err(SweepError::Output { path, source });
                    }
                    _ => {}
                }
            }
        }
        Ok(folder)
    }

    /// Checks that none of `names` lies in `folder`, or that `force` was given.
    ///
    /// # Errors
    ///
    /// [`SweepError::Usage`] naming the file.
    pub fn keeps(folder: &Path, names: &[&str], force: bool) -> Result<(), SweepError> {
        match names.iter().map(|name| folder.join(name)).find(|path| path.exists() && !force) {
            None => Ok(()),
            Some(path) => Err(SweepError::Usage(format!(
                "'{}' is there already: give another folder with --out, or --force to replace it",
                path.display()
            ))),
        }
    }

    /// Writes `report.json` and `report.md`.
    ///
    /// # Errors
    ///
    /// [`SweepError::Output`] naming the file; what was there before is then still there.
    pub fn write(&self, report: &Report) -> Result<(), SweepError> {
        self.replace("report.json", &report.to_json())?;
        self.replace("report.md", &markdown::render(report))
    }

    /// Writes `report.svg`, where there is something to draw, and `report.html`: at the end, since drawing after each run
    /// would take time from the next one.
    ///
    /// # Errors
    ///
    /// [`SweepError::Output`] naming the file.
    pub fn write_pictures(&self, report: &Report) -> Result<(), SweepError> {
        let svg = charts::svg(report).map_err(|why| SweepError::Output {
            path: self.path.join("report.svg"),
            source: std::io::Error::other(why),
        })?;
        if let Some(svg) = &svg {
            self.replace("report.svg", svg)?;
        }
        self.replace("report.html", &html::render(report, svg.as_deref()))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file, or replaces it whole.
    ///
    /// # Errors
    ///
    /// [`SweepError::Output`] naming the file; what was there before is then still there.
    pub fn replace(&self, name: &str, text: &str) -> Result<(), SweepError> {
        let path = self.path.join(name);
        let failed = |source| SweepError::Output { path: path.clone(), source };
        let mut file = tempfile::Builder::new()
            .prefix(".report-")
            .permissions(std::fs::Permissions::from_mode(0o666))
            .tempfile_in(&self.path)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|e| failed(e.error))?;
        Ok(())
    }
}

/// Draws everything beside a report's JSON anew, in `out` or where the report lies; a sentence that says where.
///
/// # Errors
///
/// [`SweepError::Missing`] when there is no report, [`SweepError::Output`] when a file cannot be written.
pub fn redraw(report: &Path, out: Option<&Path>) -> Result<String, SweepError> {
    let read = reading::report(report)?;
    let beside = if report.is_dir() { Some(report) } else { report.parent() };
    let beside = beside.filter(|b| !b.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = Folder::prepare(out.unwrap_or(beside), &REPORT_FILES[1..])?;
    folder.replace("report.md", &markdown::render(&read))?;
    folder.write_pictures(&read)?;
    Ok(format!("report.md, report.svg and report.html are in {}\n", folder.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_with_its_parents_and_left_empty() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b");
        Folder::prepare(&path, &REPORT_FILES).unwrap();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let top = tempfile::tempdir().unwrap();
        let file = top.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = Folder::prepare(&path, &REPORT_FILES).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        std::fs::create_dir_all(top.path().join("out/report.json")).unwrap();
        let error = Folder::prepare(&top.path().join("out"), &REPORT_FILES).unwrap_err();
        assert!(error.to_string().contains("report.json"), "{error}");
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let top = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(top.path(), &REPORT_FILES).unwrap();
        for text in ["first, long", "second"] {
            folder.replace("report.json", text).unwrap();
            assert_eq!(std::fs::read_to_string(top.path().join("report.json")).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 1);
    }
}
