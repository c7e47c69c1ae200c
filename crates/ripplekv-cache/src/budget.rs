//! Budgets as text and in whole numbers: `10%`, `512` (tokens a layer), `64MiB`.
//! A budget is T, the entries per KV head over all layers; percentages are never floats.

use crate::CacheError;

/// A parsed budget. `Display` gives the canonical text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Budget {
    /// Share of the prompt: `hundredths / 10^scale` percent.
    Percent {
        /// Digits of the percentage without its decimal point.
        digits: u64,
        /// Number of those digits behind the point.
        scale: u32,
    },
    /// Mean entries per layer and KV head.
    Tokens(u64),
    /// Memory for keys and values of one prompt: `digits / 10^scale` MiB.
    MebiBytes {
        /// Digits without the decimal point.
        digits: u64,
        /// Number of those digits behind the point.
        scale: u32,
    },
}

impl Budget {
    /// Reads `10%`, `12.5%`, `512`, `512 tokens`, `64MiB`.
    ///
    /// # Errors
    /// [`CacheError::Budget`] with what is wrong: not a number, zero, negative, above 100%.
    pub fn parse(text: &str) -> Result<Self, CacheError> {
        let fail = |reason: &str| CacheError::Budget {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(fail("must be above zero"));
        }
        if let Some(number) = trimmed.strip_suffix('%') {
            let (digits, scale) = decimal(number.trim()).map_err(fail)?;
            if digits == 0 {
                return Err(fail("must be above zero"));
            }
            if u128::from(digits) > 100 * 10u128.pow(scale) {
                return Err(fail("a share of the prompt cannot be above 100%"));
            }
            return Ok(Self::Percent { digits, scale });
        }
        if let Some(number) = trimmed.strip_suffix("MiB") {
            let (digits, scale) = decimal(number.trim()).map_err(fail)?;
            if digits == 0 {
                return Err(fail("must be above zero"));
            }
            return Ok(Self::MebiBytes { digits, scale });
        }
        let number = trimmed.strip_suffix("tokens").unwrap_or(trimmed).trim();
        match decimal(number) {
            Ok((0, _)) => Err(fail("must be above zero")),
            Ok((digits, 0)) => Ok(Self::Tokens(digits)),
            Ok(_) => Err(fail("tokens are whole numbers; a share is written `12.5%`")),
            Err(reason) => Err(fail(reason)),
        }
    }

    /// T: entries per KV head over all `layers` layers for a prompt of `prompt_tokens` tokens.
    /// `entry_bytes`: bytes of one position's keys and values over all KV heads of one layer.
    /// Never more than `prompt_tokens * layers`.
    #[must_use]
    pub fn total_entries(&self, prompt_tokens: usize, layers: usize, entry_bytes: usize) -> u64 {
        let everything = prompt_tokens as u128 * layers as u128;
        let total = match *self {
            // round half up of digits / 10^scale / 100 * n * L, in integers
            Self::Percent { digits, scale } => {
                let denominator = 100 * 10u128.pow(scale);
                (2 * u128::from(digits) * everything + denominator) / (2 * denominator)
            }
            Self::Tokens(tokens) => u128::from(tokens) * layers as u128,
            Self::MebiBytes { digits, scale } => {
                u128::from(digits) * (1 << 20) / 10u128.pow(scale) / entry_bytes.max(1) as u128
            }
        };
        u64::try_from(total.min(everything)).unwrap_or(u64::MAX)
    }
}

const FORMS: &str = "not a budget; write a share `10%`, tokens `512` or memory `64MiB`";

/// Digits behind the point that a budget may have.
const MOST_DECIMALS: u32 = 6;

/// Reads a plain decimal number as digits and scale, trailing zeros behind the point removed.
fn decimal(text: &str) -> Result<(u64, u32), &'static str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let joined = format!("{whole}{}", fraction.trim_end_matches('0'));
    if whole.is_empty()
        || !format!("{whole}{fraction}")
            .bytes()
            .all(|byte| byte.is_ascii_digit())
    {
        return Err(FORMS);
    }
    let scale = u32::try_from(joined.len() - whole.len()).unwrap_or(u32::MAX);
    if scale > MOST_DECIMALS {
        return Err("has at most 6 decimals");
    }
    let digits = joined.parse().map_err(|_| "is too large")?;
    Ok((digits, scale))
}

impl std::fmt::Display for Budget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |digits: u64, scale: u32| {
            if scale == 0 {
                return digits.to_string();
            }
            let padded = format!("{digits:0>width$}", width = scale as usize + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
            format!("{whole}.{fraction}")
        };
        match *self {
            Self::Percent { digits, scale } => write!(formatter, "{}%", number(digits, scale)),
            Self::Tokens(tokens) => write!(formatter, "{tokens}"),
            Self::MebiBytes { digits, scale } => write!(formatter, "{}MiB", number(digits, scale)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_texts() {
        for (given, canonical) in [
            ("10%", "10%"),
            ("12.50 %", "12.5%"),
            ("0.5%", "0.5%"),
            ("512", "512"),
            ("512 tokens", "512"),
            ("64MiB", "64MiB"),
            ("1.5 MiB", "1.5MiB"),
            ("010%", "10%"),
        ] {
            let budget = Budget::parse(given).unwrap();
            assert_eq!(budget.to_string(), canonical);
            assert_eq!(Budget::parse(canonical).unwrap(), budget);
        }
    }

    #[test]
    fn refused_texts() {
        for (given, part) in [
            ("0%", "above zero"),
            ("200%", "above 100%"),
            ("-5", "above zero"),
            ("-5%", "above zero"),
            ("ten", "not a budget"),
            ("", "not a budget"),
            ("5.5", "whole numbers"),
            ("1e3", "not a budget"),
            ("NaN%", "not a budget"),
            ("99999999999999999999", "is too large"),
            ("99999999999999999999MiB", "is too large"),
            ("0.0000001%", "has at most 6 decimals"),
            ("1.x%", "not a budget"),
        ] {
            let message = Budget::parse(given).unwrap_err().to_string();
            assert!(message.contains(part), "{given}: {message}");
        }
    }

    #[test]
    fn percentages_round_half_up_in_integers() {
        let ten = Budget::parse("10%").unwrap();
        // 1000 * 1 * 10% is exactly 100 (the f64 route of kvpress gives 99 for the complement)
        assert_eq!(ten.total_entries(1000, 1, 1), 100);
        assert_eq!(ten.total_entries(15, 1, 1), 2);
        assert_eq!(ten.total_entries(14, 1, 1), 1);
        assert_eq!(ten.total_entries(2045, 30, 1), 6135);
        assert_eq!(Budget::parse("100%").unwrap().total_entries(7, 3, 1), 21);
        assert_eq!(
            Budget::parse("512").unwrap().total_entries(2045, 30, 1),
            15360
        );
        assert_eq!(
            Budget::parse("512").unwrap().total_entries(100, 30, 1),
            3000
        );
        assert_eq!(
            Budget::parse("1MiB").unwrap().total_entries(5000, 30, 1536),
            682
        );
    }
}
