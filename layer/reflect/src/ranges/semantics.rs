//! What operations do to numbers, bit by bit: for constants, and as the yardstick of the tests.

use super::program::{Binary, Unary};

/// All bits of a width.
pub(crate) fn mask(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// A number of a width, read as signed.
pub(crate) fn signed(value: u64, bits: u8) -> i64 {
    let shift = 64 - u32::from(bits.clamp(1, 64));
    ((value << shift) as i64) >> shift
}

/// One operand; `from` is its width, `to` the result's.
pub(crate) fn fold_unary(op: Unary, a: u64, from: u8, to: u8) -> u64 {
    let value = match op {
        Unary::Negate => a.wrapping_neg(),
        Unary::Not => !a,
        Unary::ZeroExtend | Unary::Truncate | Unary::Among => a,
        Unary::SignExtend => signed(a, from) as u64,
    };
    value & mask(to)
}

/// Two operands of a width; nothing where the result may be anything.
pub(crate) fn fold_binary(op: Binary, a: u64, b: u64, bits: u8) -> Option<u64> {
    let (sa, sb) = (signed(a, bits), signed(b, bits));
    let shift = |f: fn(u64, u32) -> u64| (b < u64::from(bits)).then(|| f(a, b as u32));
    let value = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::MulHigh => ((u128::from(a) * u128::from(b)) >> bits) as u64,
        Binary::UDiv => a.checked_div(b)?,
        Binary::UMod => a.checked_rem(b)?,
        // The one quotient that doesn't fit isn't defined, and neither is its remainder.
        Binary::SDiv | Binary::SRem | Binary::SMod
            if sb == -1 && sa == signed(1 << bits.saturating_sub(1), bits) =>
        {
            return None;
        }
        Binary::SDiv => sa.checked_div(sb)? as u64,
        Binary::SRem => sa.checked_rem(sb)? as u64,
        Binary::SMod => {
            let rem = sa.checked_rem(sb)?;
            (if rem != 0 && (rem < 0) != (sb < 0) { rem + sb } else { rem }) as u64
        }
        Binary::Shl => shift(|a, by| a << by)?,
        Binary::Shr => shift(|a, by| a >> by)?,
        Binary::Sar => (b < u64::from(bits)).then(|| sa >> b)? as u64,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::UMin => a.min(b),
        Binary::UMax => a.max(b),
        Binary::SMin => sa.min(sb) as u64,
        Binary::SMax => sa.max(sb) as u64,
        Binary::Eq => return Some(u64::from(a == b)),
        Binary::Ne => return Some(u64::from(a != b)),
        Binary::ULt => return Some(u64::from(a < b)),
        Binary::ULe => return Some(u64::from(a <= b)),
        Binary::SLt => return Some(u64::from(sa < sb)),
        Binary::SLe => return Some(u64::from(sa <= sb)),
    };
    Some(value & mask(bits))
}
