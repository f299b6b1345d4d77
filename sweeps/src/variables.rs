//! The owner's variables as an axis: which settings there are.
//!
//! `--knob` names values, `--ablate` a mask of which one bit at a time is cleared, `--prefixes` the same mask with its
//! upper bits cleared one after the other. Several knobs are crossed. The first setting is always the empty one: the
//! reference runs with nothing set, so that a variable that breaks things shows even under `stock`.
//!
//! Variables by which the sweep itself steers the layer are refused: an arm would no longer be what its name says.

use std::fmt;
use std::str::FromStr;

/// Variables and the values that they are given.
pub type Setting = Vec<(String, String)>;

/// More settings than this are refused: each takes runs of every policy.
pub const MOST: usize = 256;

/// Variables that are the sweep's own.
const OWN: [&str; 7] = [
    "ZINC_BARRIER",
    "ZINC_BARRIER_POLICY",
    "ZINC_BARRIER_SHUFFLE",
    "ZINC_BARRIER_MUTATE",
    "ZINC_BARRIER_REPORT",
    "VK_INSTANCE_LAYERS",
    "VK_LAYER_PATH",
];

/// Variables of patched drivers that leave out barriers which were asked for (`mesa-patches`): whatever they win is a
/// ceiling.
const CEILINGS: [&str; 2] = ["RADV_SKIP_COMPUTE_BARRIERS", "HK_SKIP_CDM_BARRIERS"];

/// Whether a setting is wrong by design.
pub fn is_ceiling(setting: &Setting) -> bool {
    setting.iter().any(|(name, value)| CEILINGS.contains(&name.as_str()) && value != "0")
}

/// A variable with the values that it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// The variable.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A variable with a mask of which bits are to be cleared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ablation {
    /// The variable.
    pub name: String,
    /// The mask with nothing cleared.
    pub mask: Mask,
}

/// A mask, printed with as many digits as it was given with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask {
    /// Its bits.
    pub bits: u64,
    digits: usize,
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:0digits$x}", self.bits, digits = self.digits)
    }
}

impl Mask {
    /// The same mask with other bits.
    pub fn with(self, bits: u64) -> Mask {
        Mask { bits, ..self }
    }

    /// The bits that are set, lowest first.
    pub fn set(self) -> impl DoubleEndedIterator<Item = u32> {
        (0..64).filter(move |bit| self.bits >> bit & 1 == 1)
    }
}

fn name(text: &str) -> Result<(&str, &str), String> {
    let (name, value) = text.split_once('=').ok_or(format!("'{text}' has no '='; write NAME=VALUE"))?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("'{name}' is not the name of a variable"));
    }
    if OWN.contains(&name) {
        return Err(format!(
            "{name} is how the sweep itself steers each run; use --policy and its other options"
        ));
    }
    Ok((name, value))
}

impl FromStr for Knob {
    type Err = String;

    fn from_str(text: &str) -> Result<Knob, String> {
        let (name, values) = name(text)?;
        let mut seen: Vec<String> = Vec::new();
        for value in values.split(',') {
            if !seen.iter().any(|s| s == value) {
                seen.push(value.into());
            }
        }
        if values.is_empty() {
            return Err(format!("{name} is given no value; write {name}=v1,v2"));
        }
        Ok(Knob { name: name.into(), values: seen })
    }
}

impl FromStr for Ablation {
    type Err = String;

    fn from_str(text: &str) -> Result<Ablation, String> {
        let (name, value) = name(text)?;
        let digits = value.strip_prefix("0x").or(value.strip_prefix("0X"));
        let wrong = || format!("'{value}' is not a mask such as 0x000fffff, with at most 16 digits");
        let digits = digits.filter(|d| !d.is_empty()).ok_or_else(wrong)?;
        let bits = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
        if bits == 0 {
            return Err(format!("the mask of {name} has no bit that could be cleared"));
        }
        Ok(Ablation { name: name.into(), mask: Mask { bits, digits: digits.len() } })
    }
}

impl Ablation {
    /// The values of an ablation: the whole mask, the mask with each bit cleared, and with `prefixes` the mask with all
    /// bits from each one upwards cleared, down to 0.
    pub fn values(&self, prefixes: bool) -> Vec<String> {
        let mask = self.mask;
        let mut all = vec![mask.bits];
        all.extend(mask.set().map(|bit| mask.bits & !(1 << bit)));
        if prefixes {
            all.extend(mask.set().rev().map(|bit| mask.bits & ((1 << bit) - 1)));
        }
        let mut values: Vec<String> = Vec::new();
        for bits in all {
            let value = mask.with(bits).to_string();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

/// All settings: none, then every combination.
///
/// # Errors
///
/// In words, when one variable is given twice or there are more than [`MOST`].
pub fn settings(knobs: &[Knob], ablations: &[Ablation], prefixes: bool) -> Result<Vec<Setting>, String> {
    let ablated = ablations.iter().map(|a| Knob { name: a.name.clone(), values: a.values(prefixes) });
    let axes: Vec<Knob> = knobs.iter().cloned().chain(ablated).collect();
    let mut all: Vec<Setting> = vec![vec![]];
    if axes.is_empty() {
        return Ok(all);
    }
    let mut combined: Vec<Setting> = vec![vec![]];
    for (i, knob) in axes.iter().enumerate() {
        if axes[..i].iter().any(|k| k.name == knob.name) {
            return Err(format!("{} is given twice; name all of its values at once", knob.name));
        }
        let with = |setting: &Setting, value: &String| {
            setting.iter().cloned().chain([(knob.name.clone(), value.clone())]).collect()
        };
        combined = combined.iter().flat_map(|s| knob.values.iter().map(move |v| with(s, v))).collect();
        if combined.len() > MOST {
            return Err(format!(
                "that makes more than {MOST} settings; sweep them one variable after the other"
            ));
        }
    }
    all.extend(combined);
    Ok(all)
}

/// The masks to try, one after the other, on the way to the narrowest that passes: each bit that is still set is
/// cleared, highest first, and stays cleared if `passes` says so. Passes are repeated until one clears nothing, since a
/// bit may become dispensable when another is gone; so from the result no single bit can be taken.
///
/// # Errors
///
/// Those of `passes`.
pub fn narrowest<E>(mask: Mask, mut passes: impl FnMut(Mask) -> Result<bool, E>) -> Result<Option<Mask>, E> {
    if !passes(mask)? {
        return Ok(None);
    }
    let mut best = mask;
    loop {
        let before = best;
        for bit in before.set().rev() {
            let candidate = best.with(best.bits & !(1 << bit));
            if passes(candidate)? {
                best = candidate;
            }
        }
        if best == before {
            return Ok(Some(best));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_mask_is_ablated_bit_by_bit_and_by_prefixes_without_repeating_itself() {
        let ablation: Ablation = "M=0x00d".parse().unwrap();
        assert_eq!(ablation.values(false), ["0x00d", "0x00c", "0x009", "0x005"]);
        assert_eq!(ablation.values(true), ["0x00d", "0x00c", "0x009", "0x005", "0x001", "0x000"]);
        let twenty: Ablation = "M=0x000fffff".parse().unwrap();
        assert_eq!(twenty.values(false).len(), 21);
        let all: Ablation = "M=0xffffffffffffffff".parse().unwrap();
        assert_eq!(all.values(false).len(), 65);
    }

    #[test]
    fn the_first_setting_is_none_and_knobs_are_crossed() {
        let knobs: Vec<Knob> = ["A=1,2,1", "B=x,"].map(|t| t.parse().unwrap()).into();
        let all = settings(&knobs, &[], false).unwrap();
        assert_eq!(all.len(), 5);
        assert!(all[0].is_empty());
        assert_eq!(all[4], [("A".to_string(), "2".to_string()), ("B".to_string(), String::new())]);
        assert_eq!(settings(&[], &[], false).unwrap(), [vec![]]);
    }

    #[test]
    fn what_is_no_knob_is_refused_with_the_reason() {
        for (text, needle) in [
            ("A", "NAME=VALUE"),
            ("=1", "name of a variable"),
            ("A B=1", "name of a variable"),
            ("A=", "no value"),
            ("ZINC_BARRIER_POLICY=none", "--policy"),
            ("VK_INSTANCE_LAYERS=x", "steers"),
        ] {
            assert!(text.parse::<Knob>().unwrap_err().contains(needle), "{text}");
        }
        for text in ["A=255", "A=0x", "A=0x0", "A=0xg", "A=0x11111111111111111"] {
            assert!(text.parse::<Ablation>().is_err(), "{text}");
        }
        let twice: Vec<Knob> = ["A=1", "A=2"].map(|t| t.parse().unwrap()).into();
        assert!(settings(&twice, &[], false).unwrap_err().contains("twice"));
        let ablation: Ablation = "M=0xffffffffffffffff".parse().unwrap();
        let knob: Knob = "A=1,2,3,4".parse().unwrap();
        assert!(settings(&[knob], &[ablation], false).unwrap_err().contains("256"));
    }

    #[test]
    fn a_switch_that_skips_barriers_is_a_ceiling_where_it_is_on() {
        let set = |name: &str, value: &str| vec![(name.to_string(), value.to_string())];
        assert!(is_ceiling(&set("RADV_SKIP_COMPUTE_BARRIERS", "1")));
        assert!(!is_ceiling(&set("RADV_SKIP_COMPUTE_BARRIERS", "0")));
        assert!(!is_ceiling(&set("RADV_DEFER_L2_FLUSH", "1")) && !is_ceiling(&vec![]));
    }

    #[test]
    fn the_narrowest_mask_passes_and_no_bit_of_it_can_be_taken() {
        let search = |passes: fn(u64) -> bool| {
            let mask = "M=0xff".parse::<Ablation>().unwrap().mask;
            narrowest(mask, |m| Ok::<_, Infallible>(passes(m.bits))).unwrap().map(|m| m.to_string())
        };
        assert_eq!(search(|m| m & 0x90 == 0x90).as_deref(), Some("0x90"));
        // Bit 7 is dispensable only without bit 0: it takes a second pass.
        assert_eq!(search(|m| m & 0x80 != 0 || m & 1 == 0).as_deref(), Some("0x00"));
        assert_eq!(search(|_| true).as_deref(), Some("0x00"));
        assert_eq!(search(|_| false), None);
    }
}
