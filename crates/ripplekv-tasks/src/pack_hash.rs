//! One hash for all of a pack that can change a prompt or an answer's length.
//! Part of a profile's recipe; the pack's name, place and manifest are not in it.

use crate::pack::Pack;
use crate::pack_error::PackError;

/// BLAKE3 (hex) over every task's name, prompt text, most new tokens and record file, in table
/// order.
///
/// # Errors
/// If a record file cannot be read.
pub fn pack_hash(pack: &Pack) -> Result<String, PackError> {
    let mut hasher = blake3::Hasher::new();
    // The length goes first, so that no two lists of fields run into the same bytes.
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for task in pack.tasks() {
        field(task.name.as_bytes());
        field(pack.template(task)?.as_bytes());
        field(&(pack.max_new_tokens(task)? as u64).to_le_bytes());
        field(pack.hash(task)?.as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}
