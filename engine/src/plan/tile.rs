//! How a fused matrix-vector step is cut: rows to tiles, units to invocations, tiles to workgroups.
//!
//! Two wishes pull against each other. Every processor should have as many bytes in flight as it can hold, so a tile
//! should have as many units as the invocations can keep in registers; and all processors should finish together, so
//! rows should be dealt evenly. So the rows are first divided among the workgroups that fit the device, and each
//! workgroup's share is then cut into equal tiles that fit its registers.

use super::FusedTuning;
use crate::quant::WeightType;

/// Units that an invocation can have in flight: three bits each remember a unit's place (matvec.glsl).
const MOST_UNITS: u32 = 10;
/// Workgroups of more invocations than this are left to the plain kernels.
const MOST_THREADS: u32 = 1024;

/// A step, cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Invocations in a workgroup.
    pub threads: u32,
    /// Results of a tile.
    pub rows: u32,
    /// Units an invocation.
    pub units: u32,
    /// Workgroups.
    pub groups: u32,
    /// Sizes of the shared arrays: groups of activations, partial sums, sums, squares.
    pub activations: u32,
    /// See `activations`.
    pub partials: u32,
    /// See `activations`.
    pub sums: u32,
    /// See `activations`.
    pub squares: u32,
}

/// What is to be cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub ty: WeightType,
    pub columns: u32,
    /// Results.
    pub rows: u32,
    /// Whether a result takes a row of each of two matrices.
    pub gated: bool,
    pub norm: bool,
}

/// Columns of a unit, as in units.glsl.
pub(crate) fn unit_columns(ty: WeightType) -> u32 {
    match ty {
        WeightType::F32 => 4,
        WeightType::F16 | WeightType::BF16 => 8,
        WeightType::Q8_0 => 16,
        WeightType::Q5_0 | WeightType::Q4_1 | WeightType::Q4_0 | WeightType::Q6_K | WeightType::Q4_K => 32,
    }
}

impl Tiling {
    /// Cuts a step for workgroups of `threads` invocations or, where a row does not fit those, of more.
    pub(crate) fn new(work: &Work, threads: u32, groups: u32, tuning: &FusedTuning) -> Option<Self> {
        let unit = unit_columns(work.ty);
        if !work.columns.is_multiple_of(unit) {
            return None;
        }
        let units_a_row = work.columns / unit;
        let matrices = if work.gated { 2 } else { 1 };
        let each = units_a_row * matrices;
        let most = tuning.units.clamp(1, MOST_UNITS);
        let threads = threads.max(each.div_ceil(MOST_UNITS).next_power_of_two());
        if threads > MOST_THREADS {
            return None;
        }
        let fit = (most * threads / each).max(1);
        let share = work.rows.div_ceil(groups.max(1));
        let tiles = share.div_ceil(fit);
        let rows = share.div_ceil(tiles);
        let units = (rows * each).div_ceil(threads);
        let groups = work.rows.div_ceil(rows).div_ceil(tiles);
        let stride = units_a_row + (40 - units_a_row % 32) % 32;
        let activations = if work.ty.is_quantized() { work.columns / 16 } else { 1 };
        let squares = match (work.norm, work.ty.is_quantized()) {
            (false, _) => 1,
            (true, true) => activations,
            (true, false) => threads,
        };
        let matrix_rows = rows * matrices;
        Some(Self {
            threads,
            rows,
            units,
            groups,
            activations,
            partials: matrix_rows * stride,
            sums: matrix_rows * 8 + 8,
            squares,
        })
    }

    /// Bytes of shared memory.
    pub(crate) fn shared_bytes(&self) -> u32 {
        24 * self.activations + 4 * (self.partials + self.sums + self.squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tuning;

    fn tiling(ty: WeightType, columns: u32, rows: u32, gated: bool) -> Tiling {
        let tuning = Tuning::GPU.fused;
        let work = Work { ty, columns, rows, gated, norm: true };
        Tiling::new(&work, tuning.threads, tuning.groups, &tuning).unwrap()
    }

    #[test]
    fn every_row_is_in_one_tile_and_every_unit_in_one_register() {
        for (columns, rows, gated) in [
            (2560, 6144, false),
            (2560, 9728, true),
            (9728, 2560, false),
            (576, 960, false),
            (32, 1, true),
            (14336, 3, false),
        ] {
            for ty in WeightType::ALL {
                let t = tiling(ty, columns, rows, gated);
                let units = columns / unit_columns(ty) * t.rows * if gated { 2 } else { 1 };
                assert!(units <= t.units * t.threads && t.units <= MOST_UNITS, "{ty} {columns} {t:?}");
                assert!(t.groups <= 264 && t.groups * t.rows <= rows.next_multiple_of(t.rows), "{t:?}");
            }
        }
    }

    #[test]
    fn shares_of_a_wide_step_are_even() {
        // 9728 pairs of rows over 264 workgroups are 37 each; tiles of 12 or 13 pairs fit 2048 units.
        let t = tiling(WeightType::Q4_0, 2560, 9728, true);
        assert_eq!((t.rows, t.groups), (10, 244));
        let t = tiling(WeightType::Q4_0, 2560, 2560, false);
        assert_eq!((t.rows, t.units, t.groups), (10, 4, 256));
    }

    #[test]
    fn a_row_of_partial_units_is_not_cut() {
        let work = Work { ty: WeightType::F16, columns: 20, rows: 3, gated: false, norm: false };
        assert_eq!(Tiling::new(&work, 64, 8, &Tuning::GPU.fused), None);
    }
}
