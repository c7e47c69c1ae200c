//! Files over HTTP, with time limits: an absent network is noticed within seconds, and a cut body is an error.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;

use crate::failure::Failure;

/// For a name, a connection, and the head of an answer, each.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two pieces of a body.
const SILENCE: Duration = Duration::from_secs(30);

/// Gets files; one connection pool.
pub(crate) struct Downloader(Agent);

impl Downloader {
    pub(crate) fn new() -> Self {
        let config = Agent::config_builder()
            .timeout_resolve(Some(PATIENCE))
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("ripplekv/", env!("CARGO_PKG_VERSION")))
            .build();
        Self(config.into())
    }

    /// A small file, of at most `most` bytes.
    pub(crate) fn bytes(&self, address: &str, most: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        self.copy(address, most, &mut bytes, &mut |_, _| ())?;
        Ok(bytes)
    }

    /// A large file, of at most `most` bytes. `tell` hears the bytes so far, and all of them where known.
    pub(crate) fn file(
        &self,
        address: &str,
        path: &Path,
        most: u64,
        tell: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Failure> {
        let mut file = File::create(path)
            .map_err(|error| Failure::Data(format!("cannot write {}: {error}", path.display())))?;
        self.copy(address, most, &mut file, tell)
    }

    fn copy(
        &self,
        address: &str,
        most: u64,
        out: &mut dyn Write,
        tell: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Failure> {
        let mut response = self
            .0
            .get(address)
            .call()
            .map_err(|error| explain(address, &error))?;
        let stated = response.body().content_length();
        let cut = |problem: &dyn std::fmt::Display| {
            Failure::Data(format!(
                "cannot fetch {address}: the download broke off: {problem}\nhint: run again"
            ))
        };
        let mut reader = response.body_mut().with_config().limit(most).reader();
        let mut buffer = vec![0; 1 << 17];
        let mut received = 0;
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(cut(&error)),
            };
            out.write_all(&buffer[..count])
                .map_err(|error| Failure::Data(format!("cannot keep {address}: {error}")))?;
            received += count as u64;
            tell(received, stated);
        }
        match stated {
            Some(stated) if stated != received => {
                Err(cut(&format!("{received} bytes of {stated} came")))
            }
            _ => Ok(()),
        }
    }
}

fn explain(address: &str, error: &ureq::Error) -> Failure {
    let hint = match error {
        ureq::Error::StatusCode(status) => {
            return Failure::Data(format!(
                "cannot fetch {address}: the server answers with status {status}\nhint: --from takes a folder or an archive that is here already"
            ));
        }
        _ => "connect to a network, or bring a folder or an archive here and give it with --from",
    };
    Failure::Data(format!("cannot fetch {address}: {error}\nhint: {hint}"))
}
