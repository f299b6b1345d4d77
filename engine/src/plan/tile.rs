//! How a fused matrix-vector step is cut: rows to workgroups and passes, a row's units to invocations.
//!
//! A step is short: a matrix of 14 MB streams in three microseconds, and the first byte takes one. So the loads of the whole
//! step should be in flight at once, or as much of it as the registers hold, and all processors should finish together. Rows
//! are dealt evenly to one workgroup a processor, and a workgroup has as many invocations as its rows need. A step that does not
//! fit so is dealt to twice as many, smaller workgroups and takes several passes: two workgroups on a processor reduce at
//! different times. Invocations that share a row are as few as keep a processor busy (then each has several
//! units in flight, and neighbouring rows share what they read of the activations), but so many that none has more units than
//! its registers hold.
//!
//! These rules are what was fastest of some dozens of cuts of four models' steps on an NVIDIA H200 (`engine micro`); the sizes
//! in them are those of its processors.
//!
//! The number of invocations that share a row decides the order in which it is added up, so it depends on the step alone and
//! not on how the step is dealt: the resident kernel cuts differently and must give the same bits.

use super::FusedTuning;
use crate::quant::WeightType;

/// Units that an invocation has in registers, at most.
const MOST_UNITS: u32 = 16;
/// Workgroups of more invocations than this are left to the plain kernels.
const MOST_THREADS: u32 = 1024;
/// Sums of squares before a norm are added up by this many invocations; workgroups are multiples of it.
const WARP: u32 = 32;

/// A step, cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Invocations in a workgroup.
    pub threads: u32,
    /// Results of a pass.
    pub rows: u32,
    /// Invocations that share a row.
    pub lanes: u32,
    /// Units an invocation, of each matrix.
    pub units: u32,
    /// Workgroups.
    pub groups: u32,
    /// Sizes of the shared arrays: groups of activations, partial sums, squares.
    pub activations: u32,
    /// See `activations`.
    pub partials: u32,
    /// See `activations`.
    pub squares: u32,
}

/// Who computes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crew {
    /// A dispatch of its own, with workgroups as large as it needs.
    Own,
    /// The same with no barrier before it: each workgroup reads all activations as they come in, so a large step has half as many
    /// workgroups, and the next step's find room beside them.
    Chained,
    /// The workgroups of the resident kernel, who store four results at a time.
    Resident,
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

/// Registers that the units of an invocation may take: beyond, compilers spill.
const UNIT_WORDS: u32 = 56;

/// Words that an invocation keeps of a unit, as in units.glsl.
fn unit_words(ty: WeightType) -> u32 {
    match ty {
        WeightType::F32 | WeightType::F16 | WeightType::BF16 => 4,
        WeightType::Q8_0 | WeightType::Q4_1 | WeightType::Q4_0 => 5,
        WeightType::Q5_0 => 6,
        WeightType::Q4_K => 8,
        WeightType::Q6_K => 11,
    }
}

/// The smallest power of two of invocations to a row that keeps `wanted` of them busy with `share` rows, and leaves each
/// `most` units or fewer.
fn lanes_of(units: u32, share: u32, wanted: u32, most: u32) -> u32 {
    let mut lanes = 1;
    while lanes < units && (lanes * share < wanted || units.div_ceil(lanes) > most) {
        lanes *= 2;
    }
    lanes
}

impl Tiling {
    /// Cuts a step; `None` if its rows are not whole units or do not fit a workgroup.
    pub(crate) fn new(work: &Work, crew: Crew, tuning: &FusedTuning) -> Option<Self> {
        let unit = unit_columns(work.ty);
        if !work.columns.is_multiple_of(unit) {
            return None;
        }
        let units_a_row = work.columns / unit;
        let matrices = if work.gated { 2 } else { 1 };
        let processors = tuning.groups.max(1);
        let most =
            (tuning.units.clamp(1, MOST_UNITS).min(UNIT_WORDS / unit_words(work.ty)) / matrices).max(1);
        let mut lanes = lanes_of(units_a_row, work.rows.div_ceil(processors), tuning.lanes, most);
        let wide = lanes * work.rows.div_ceil(processors) > tuning.threads;
        if wide {
            lanes = lanes_of(units_a_row, work.rows.div_ceil(2 * processors), tuning.lanes / 2, most);
        }
        let units = units_a_row.div_ceil(lanes);
        let (groups, most_threads, multiple) = match crew {
            Crew::Own if wide => (2 * processors, tuning.wide_threads.max(lanes), 1),
            Crew::Chained if wide => (processors, tuning.chain_threads.max(lanes), 1),
            Crew::Own | Crew::Chained => (processors, tuning.threads.max(lanes), 1),
            Crew::Resident => (tuning.resident_groups.max(1), tuning.resident_threads, 4),
        };
        let share = work.rows.div_ceil(groups);
        let most_rows = most_threads / lanes / multiple * multiple;
        if most_threads > MOST_THREADS || most_rows == 0 || !work.rows.is_multiple_of(multiple) {
            return None;
        }
        let passes = share.div_ceil(most_rows);
        let rows = share.div_ceil(passes).next_multiple_of(multiple);
        let threads = match crew {
            Crew::Own | Crew::Chained => {
                (rows * lanes).max(WARP.max(tuning.threads.min(128))).next_multiple_of(WARP)
            }
            Crew::Resident => most_threads,
        };
        let activations = if work.ty.is_quantized() { work.columns / 16 } else { 1 };
        let squares = match (work.norm, work.ty.is_quantized()) {
            (false, _) => 1,
            (true, true) => activations,
            (true, false) => threads,
        };
        Some(Self {
            threads,
            rows,
            lanes,
            units,
            groups: work.rows.div_ceil(rows).div_ceil(passes),
            activations,
            partials: 2 * matrices * lanes * (rows | 1),
            squares,
        })
    }

    /// Bytes of shared memory.
    pub(crate) fn shared_bytes(&self) -> u32 {
        24 * self.activations + 4 * (self.partials + self.squares + WARP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Tuning;

    fn tiling(ty: WeightType, columns: u32, rows: u32, gated: bool, crew: Crew) -> Tiling {
        let tuning = Tuning::GPU.fused;
        let work = Work { ty, columns, rows, gated, norm: true };
        Tiling::new(&work, crew, &tuning).unwrap()
    }

    #[test]
    fn every_row_is_in_one_pass_and_every_unit_in_one_register() {
        let most = Tuning::GPU.fused;
        for (columns, rows, gated) in [
            (2560, 6144, false),
            (2560, 9728, true),
            (9728, 2560, false),
            (576, 960, false),
            (32, 1, true),
            (14336, 3, false),
        ] {
            for ty in WeightType::ALL {
                let t = tiling(ty, columns, rows, gated, Crew::Own);
                let units = columns / unit_columns(ty);
                assert!(
                    units <= t.units * t.lanes && units > (t.units - 1) * t.lanes,
                    "{ty} {columns} {t:?}"
                );
                assert!(t.units <= MOST_UNITS && t.rows * t.lanes <= t.threads, "{ty} {columns} {t:?}");
                assert!(
                    t.groups <= 2 * most.groups && t.groups * t.rows <= rows.next_multiple_of(t.rows),
                    "{t:?}"
                );
            }
        }
    }

    #[test]
    fn a_step_of_one_or_two_passes_has_work_for_every_processor() {
        for (columns, rows) in [(2560, 6144), (4096, 2560), (9728, 2560)] {
            let t = tiling(WeightType::Q4_0, columns, rows, false, Crew::Own);
            assert!(2 * t.groups * t.rows >= rows && t.groups > 120, "{t:?}");
        }
    }

    #[test]
    fn the_resident_crew_adds_rows_up_in_the_same_order() {
        for (columns, rows, gated) in [(2560, 6144, false), (2560, 9728, true), (9728, 2560, false)] {
            let [own, resident] =
                [Crew::Own, Crew::Resident].map(|crew| tiling(WeightType::Q4_0, columns, rows, gated, crew));
            assert_eq!((own.lanes, own.units), (resident.lanes, resident.units));
            assert!(resident.rows % 4 == 0 && resident.threads == Tuning::GPU.fused.resident_threads);
        }
    }

    #[test]
    fn a_row_of_partial_units_is_not_cut() {
        let work = Work { ty: WeightType::F16, columns: 20, rows: 3, gated: false, norm: false };
        assert_eq!(Tiling::new(&work, Crew::Own, &Tuning::GPU.fused), None);
    }
}
