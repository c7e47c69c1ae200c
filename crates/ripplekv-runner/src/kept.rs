//! Stored kept positions: `kept/<model>/<task>/<writer>.jsonl`, one line a cell and sample.
//!
//! `bits` is base64 (with padding) of a raw deflate stream of a bitmap: one row for each layer and KV head, layers outside,
//! each row padded to whole bytes; position p of the prompt is bit p % 8 (the lowest first) of byte p / 8. Where `like` names
//! another cell, the bitmap holds the differences (exclusive or) from that cell's bitmap of the same sample, whose line stands
//! earlier in the file: cells of one prompt keep much the same positions. A cell that keeps everything has no line.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder};
use serde::{Deserialize, Serialize};

use crate::cell::CellKey;
use crate::engine::KeptSets;

/// Version of [`KeptLine`].
pub const KEPT_SCHEMA: u32 = 1;

/// `kept_hash` of a cell that keeps everything.
pub const EVERYTHING: &str = "full";

/// One stored line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLine {
    /// [`KEPT_SCHEMA`] when it was written.
    pub schema: u32,
    /// Key of the cell.
    pub cell: CellKey,
    /// `_id` of the sample.
    pub sample: String,
    /// n: tokens of the prompt.
    pub prompt_tokens: usize,
    /// L: layers.
    pub layers: usize,
    /// KV heads of one layer.
    pub kv_heads: usize,
    /// Cell that `bits` are the differences from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<CellKey>,
    /// The bitmap.
    pub bits: String,
}

/// Which positions of a prompt are kept, by layer and KV head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBits {
    prompt_tokens: usize,
    layers: usize,
    kv_heads: usize,
    bytes: Vec<u8>,
}

impl KeptBits {
    /// From kept positions of a prompt of `prompt_tokens`.
    ///
    /// # Errors
    /// For a position outside the prompt, or layers with different numbers of heads.
    pub fn new(sets: &KeptSets, prompt_tokens: usize) -> Result<Self, String> {
        let kv_heads = sets.first().map_or(0, Vec::len);
        let row_bytes = prompt_tokens.div_ceil(8);
        let mut bytes = vec![0; sets.len() * kv_heads * row_bytes];
        for (layer, heads) in sets.iter().enumerate() {
            if heads.len() != kv_heads {
                return Err(format!(
                    "layer {layer} has {} heads, not {kv_heads}",
                    heads.len()
                ));
            }
            for (head, positions) in heads.iter().enumerate() {
                let row = (layer * kv_heads + head) * row_bytes;
                for position in positions {
                    let position = *position as usize;
                    if position >= prompt_tokens {
                        return Err(format!(
                            "position {position} of a prompt of {prompt_tokens} tokens"
                        ));
                    }
                    bytes[row + position / 8] |= 1 << (position % 8);
                }
            }
        }
        Ok(Self {
            prompt_tokens,
            layers: sets.len(),
            kv_heads,
            bytes,
        })
    }

    /// n: tokens of the prompt.
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// L: layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// KV heads of one layer.
    #[must_use]
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Whether a head of a layer keeps a position; false outside.
    #[must_use]
    pub fn keeps(&self, layer: usize, head: usize, position: usize) -> bool {
        let row = (layer * self.kv_heads + head) * self.prompt_tokens.div_ceil(8);
        let byte = self.bytes.get(row + position / 8);
        position < self.prompt_tokens && byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
    }

    /// The kept positions, ascending.
    #[must_use]
    pub fn sets(&self) -> KeptSets {
        let head_set = |layer, head| {
            let kept = |position: &u32| self.keeps(layer, head, *position as usize);
            (0..self.prompt_tokens as u32).filter(kept).collect()
        };
        (0..self.layers)
            .map(|layer| {
                (0..self.kv_heads)
                    .map(|head| head_set(layer, head))
                    .collect()
            })
            .collect()
    }

    fn is_as_large(&self, other: &Self) -> bool {
        let shape = |bits: &Self| (bits.prompt_tokens, bits.layers, bits.kv_heads);
        shape(self) == shape(other)
    }

    fn differences(&self, other: &Self) -> Self {
        let pairs = self.bytes.iter().zip(&other.bytes);
        Self {
            bytes: pairs.map(|(left, right)| left ^ right).collect(),
            ..self.clone()
        }
    }

    fn count(&self) -> u32 {
        self.bytes.iter().map(|byte| byte.count_ones()).sum()
    }

    fn pack(&self) -> Result<String, String> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let packed = encoder
            .write_all(&self.bytes)
            .and_then(|()| encoder.finish());
        Ok(STANDARD.encode(packed.map_err(|error| error.to_string())?))
    }
}

/// Lines of one sample's cells, each stored as the differences from the nearest cell before it, where that is smaller.
///
/// # Errors
/// As [`KeptBits::new`].
pub fn kept_lines<'a>(
    sample: &str,
    cells: impl IntoIterator<Item = (&'a CellKey, &'a KeptBits)>,
) -> Result<Vec<KeptLine>, String> {
    let mut before: Vec<(&CellKey, &KeptBits)> = Vec::new();
    let mut lines = Vec::new();
    for (cell, bits) in cells {
        let nearest = before
            .iter()
            .filter(|(_, other)| bits.is_as_large(other))
            .map(|(key, other)| (*key, bits.differences(other)))
            .min_by_key(|(_, differences)| differences.count());
        let (like, stored) = match nearest {
            Some((key, differences)) if differences.count() < bits.count() => {
                (Some(key.clone()), differences)
            }
            _ => (None, bits.clone()),
        };
        lines.push(KeptLine {
            schema: KEPT_SCHEMA,
            cell: cell.clone(),
            sample: sample.to_owned(),
            prompt_tokens: bits.prompt_tokens,
            layers: bits.layers,
            kv_heads: bits.kv_heads,
            like,
            bits: stored.pack()?,
        });
        before.push((cell, bits));
    }
    Ok(lines)
}

impl KeptLine {
    /// The bitmap; `like` is that of the cell this line names, if it names one.
    ///
    /// # Errors
    /// For a damaged line, or one whose `like` is missing or of another shape.
    pub fn unpack(&self, like: Option<&KeptBits>) -> Result<KeptBits, String> {
        let rows = self.layers.checked_mul(self.kv_heads);
        let wanted = rows.and_then(|rows| rows.checked_mul(self.prompt_tokens.div_ceil(8)));
        let wanted = wanted.ok_or("its shape is too large")?;
        let packed = STANDARD
            .decode(&self.bits)
            .map_err(|error| error.to_string())?;
        let mut decoder = DeflateDecoder::new(Bounded {
            bytes: Vec::new(),
            most: wanted,
        });
        let unpacked = decoder.write_all(&packed).and_then(|()| decoder.finish());
        let bytes = unpacked.map_err(|error| error.to_string())?.bytes;
        if bytes.len() != wanted {
            return Err(format!("{} bytes of bitmap, not {wanted}", bytes.len()));
        }
        let bits = KeptBits {
            prompt_tokens: self.prompt_tokens,
            layers: self.layers,
            kv_heads: self.kv_heads,
            bytes,
        };
        match (&self.like, like) {
            (None, _) => Ok(bits),
            (Some(_), Some(other)) if bits.is_as_large(other) => Ok(bits.differences(other)),
            (Some(cell), Some(_)) => {
                Err(format!("cell {cell}, which it is like, has another shape"))
            }
            (Some(cell), None) => Err(format!(
                "cell {cell}, which it is like, is not stored before it"
            )),
        }
    }
}

/// Takes so many bytes and no more: a damaged line must not fill the memory.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(std::io::Error::other(
                "more bytes of bitmap than its shape has",
            ));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What [`crate::record::Record::kept_hash`] says of these positions: for each layer and head the number of positions (u64)
/// and the positions (u32), little endian, through blake3; the first 32 hex digits. [`EVERYTHING`] for `None`.
#[must_use]
pub fn kept_hash(sets: Option<&KeptSets>) -> String {
    let Some(sets) = sets else {
        return EVERYTHING.to_owned();
    };
    let mut hasher = blake3::Hasher::new();
    for positions in sets.iter().flatten() {
        hasher.update(&(positions.len() as u64).to_le_bytes());
        for position in positions {
            hasher.update(&position.to_le_bytes());
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> CellKey {
        CellKey(name.to_owned())
    }

    fn sets_of(keep: &[bool], tokens: usize, layers: usize, heads: usize) -> KeptSets {
        let kept = |layer: usize, head: usize| {
            (0..tokens)
                .filter(|position| keep[((layer * heads + head) * tokens + position) % keep.len()])
                .map(|position| position as u32)
                .collect()
        };
        (0..layers)
            .map(|layer| (0..heads).map(|head| kept(layer, head)).collect())
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_stored_is_what_was_kept(
            keep in prop::collection::vec(any::<bool>(), 1..400),
            flip in prop::collection::vec(any::<bool>(), 1..400),
            tokens in 1_usize..40, layers in 1_usize..4, heads in 1_usize..4,
        ) {
            let first = sets_of(&keep, tokens, layers, heads);
            let second = sets_of(&flip, tokens, layers, heads);
            let bits = [&first, &second, &first].map(|sets| KeptBits::new(sets, tokens).unwrap());
            let keys = ["a", "b", "c"].map(key);
            let lines = kept_lines("s", keys.iter().zip(&bits)).unwrap();
            let mut known: Vec<(CellKey, KeptBits)> = Vec::new();
            for (line, sets) in lines.iter().zip([&first, &second, &first]) {
                let like = line.like.as_ref().map(|cell| {
                    &known.iter().find(|(key, _)| key == cell).unwrap().1
                });
                let read = line.unpack(like).unwrap();
                prop_assert_eq!(&read.sets(), sets);
                prop_assert_eq!(kept_hash(Some(&read.sets())), kept_hash(Some(sets)));
                known.push((line.cell.clone(), read));
            }
        }
    }

    #[test]
    fn equal_sets_cost_next_to_nothing() {
        let keep: Vec<bool> = (0..9_000_u64).map(|place| place * place % 7 == 2).collect();
        let bits = KeptBits::new(&sets_of(&keep, 3_000, 3, 1), 3_000).unwrap();
        let keys = [key("a"), key("b")];
        let lines = kept_lines("s", keys.iter().zip([&bits, &bits])).unwrap();
        assert_eq!(
            (lines[0].like.as_ref(), lines[1].like.as_ref()),
            (None, Some(&keys[0]))
        );
        assert!(lines[1].bits.len() < 40, "{}", lines[1].bits);
    }

    #[test]
    fn damaged_lines_are_told() {
        let bits = KeptBits::new(&vec![vec![vec![0, 9]]], 10).unwrap();
        let keys = [key("a"), key("b")];
        let lines = kept_lines("s", keys.iter().zip([&bits, &bits])).unwrap();
        let line = &lines[0];
        let shorter = KeptLine {
            prompt_tokens: 8,
            ..line.clone()
        };
        assert!(shorter.unpack(None).unwrap_err().contains("more bytes"));
        let longer = KeptLine {
            prompt_tokens: 80,
            ..line.clone()
        };
        assert!(
            longer
                .unpack(None)
                .unwrap_err()
                .contains("2 bytes of bitmap, not 10")
        );
        let huge = KeptLine {
            layers: usize::MAX,
            ..line.clone()
        };
        assert!(huge.unpack(None).unwrap_err().contains("too large"));
        let text = KeptLine {
            bits: "no base64".to_owned(),
            ..line.clone()
        };
        assert!(text.unpack(None).is_err());
        assert!(lines[1].unpack(None).unwrap_err().contains("cell a"));
        assert!(KeptBits::new(&vec![vec![vec![10]]], 10).is_err());
    }
}
