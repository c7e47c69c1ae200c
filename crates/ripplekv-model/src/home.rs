//! The folder where models, profiles and dictionaries are kept between runs.
//! `RIPPLEKV_HOME`, else `ripplekv` in the platform's cache folder.

use std::path::{Path, PathBuf};

/// Name of the environment variable that moves the folder.
pub const HOME_VARIABLE: &str = "RIPPLEKV_HOME";

/// There is no place to keep anything.
#[derive(Debug, thiserror::Error)]
#[error(
    "no cache folder is known on this machine\nhint: set {HOME_VARIABLE} to a folder with room for the models"
)]
pub struct NoHome;

/// The folder itself; it need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `RIPPLEKV_HOME`, else `ripplekv` in the platform's cache folder.
    pub fn from_environment() -> Result<Self, NoHome> {
        let stated = std::env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty());
        match stated {
            Some(folder) => Ok(Self::at(folder)),
            None => dirs::cache_dir()
                .map(|cache| Self::at(cache.join("ripplekv")))
                .ok_or(NoHome),
        }
    }

    /// A folder of the caller's choice; a relative one is taken from the present directory.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self(std::path::absolute(&folder).unwrap_or(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_folders_become_absolute() {
        assert!(Home::at("here").path().is_absolute());
        assert_eq!(Home::at("/tmp/x").path(), Path::new("/tmp/x"));
    }
}
