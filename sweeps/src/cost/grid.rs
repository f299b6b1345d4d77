//! Which series are run: one thing is varied at a time, about a point that looks like a step of decoding.
//!
//! Three axes, each from the same middle: the bytes that a dispatch reads, the bytes that it leaves dirty, and how many
//! dispatches stand side by side between two barriers. Every point of every axis has its own series without a barrier,
//! since a barrier's cost is a difference and the dispatches around it are not free.

use super::gpu::{INVOCATIONS, Series, UNIT, Work};
use super::scope::Scope;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What is varied.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bytes read by each dispatch.
    Size,
    /// Bytes written by each dispatch.
    Dirtied,
    /// Dispatches between two barriers.
    Beside,
}

/// Sizes that suit a kind of device.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Bytes read, in ascending order.
    pub sizes: Vec<u64>,
    /// Bytes read where something else is varied.
    pub middle: u64,
    /// Bytes written.
    pub dirtied: Vec<u64>,
    /// Dispatches side by side.
    pub beside: Vec<u32>,
    /// Workgroups at most: enough to fill the device.
    pub groups: u32,
    /// Workgroups of resident dispatches.
    pub resident: Vec<u32>,
    /// Bytes that are walked through, so that what was read is not read again from a cache.
    pub window: u64,
    /// How long a series without barriers should take on the device, microseconds.
    pub target: f64,
    /// Dispatches of a series at most.
    pub most: u32,
}

/// Bytes written by each dispatch where that is not varied: some activations.
pub const DIRTIED: u64 = 4 * KIB;

/// Dispatches of a series are a multiple of this, so that every grouping comes out whole.
pub const MULTIPLE: u32 = 16;

impl Grid {
    /// For a GPU with `free` bytes of memory; `resident` workgroups are resident at once.
    pub fn gpu(free: u64, resident: u32) -> Grid {
        let window = (free / 4).clamp(64 * MIB, 1024 * MIB);
        let sizes = [2 * KIB, 64 * KIB, 1536 * KIB, 6 * MIB, 14 * MIB, 64 * MIB, 320 * MIB];
        Grid {
            sizes: sizes.into_iter().filter(|s| *s <= window / 2).collect(),
            middle: 1536 * KIB,
            dirtied: vec![0, DIRTIED, 64 * KIB, MIB, 8 * MIB, 32 * MIB],
            beside: vec![1, 2, 4, 8, 16],
            groups: 1056,
            resident: vec![(resident / 2).max(1), resident.max(1)],
            window,
            target: 1500.0,
            most: 512,
        }
    }

    /// For a CPU driver, whose dispatches are slow and whose figures prove nothing.
    pub fn cpu() -> Grid {
        Grid {
            sizes: vec![2 * KIB, 64 * KIB, MIB],
            middle: 64 * KIB,
            dirtied: vec![0, DIRTIED, 64 * KIB],
            beside: vec![1, 4, 16],
            groups: 8,
            resident: vec![1],
            window: 16 * MIB,
            target: 1500.0,
            most: 64,
        }
    }

    /// Bytes written at most.
    pub fn most_dirtied(&self) -> u64 {
        self.dirtied.iter().copied().fold(DIRTIED, u64::max)
    }

    /// All points without their lengths (each has [`MULTIPLE`] dispatches); `resident` where a barrier within a kernel can
    /// be timed. The series without a barrier of a point comes before those with one.
    pub fn points(&self, resident: bool) -> Vec<(Axis, Series)> {
        let mut points = Vec::new();
        let wide = Scope::EVERY.into_iter().filter(|s| *s != Scope::InKernel).collect::<Vec<_>>();
        let some = [Scope::None, Scope::Execution, Scope::Shader, Scope::Host, Scope::All, Scope::Event];
        for read in &self.sizes {
            let work = self.work(*read, DIRTIED);
            points.extend(wide.iter().map(|scope| (Axis::Size, series(*scope, work, 1))));
            for groups in self.resident.iter().filter(|_| resident) {
                let work = Work { groups: (*groups).min(work.groups), ..work };
                for scope in [Scope::None, Scope::InKernel] {
                    points.push((Axis::Size, Series { resident: true, ..series(scope, work, 1) }));
                }
            }
        }
        for dirtied in self.dirtied.iter().filter(|d| **d != DIRTIED) {
            let work = self.work(self.middle, *dirtied);
            points.extend(some.iter().map(|scope| (Axis::Dirtied, series(*scope, work, 1))));
        }
        for beside in self.beside.iter().filter(|b| **b != 1) {
            let work = self.work(self.middle, DIRTIED);
            points.extend(some.iter().map(|scope| (Axis::Beside, series(*scope, work, *beside))));
        }
        let mut kept: Vec<(Axis, Series)> = Vec::new();
        for point in points {
            // Small work has one workgroup, whatever was asked.
            if !kept.contains(&point) {
                kept.push(point);
            }
        }
        kept
    }

    /// Work of so many bytes, with four units for each invocation until the device is full.
    fn work(&self, read: u64, dirtied: u64) -> Work {
        let invocations = (read / UNIT).div_ceil(4).max(dirtied / UNIT / 4).max(1);
        let groups = invocations.div_ceil(u64::from(INVOCATIONS)).clamp(1, u64::from(self.groups));
        Work { read, dirtied, groups: groups as u32 }
    }
}

fn series(scope: Scope, work: Work, beside: u32) -> Series {
    Series { scope, work, dispatches: MULTIPLE, beside, resident: false }
}

/// Whether `base` is what `series` is compared with: the same without a barrier.
pub fn is_base(base: &Series, series: &Series) -> bool {
    base.scope == Scope::None && Series { scope: Scope::None, ..*series } == *base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_a_base_before_it_and_stands_once() {
        for grid in [Grid::gpu(100 << 30, 264), Grid::cpu(), Grid::gpu(1 << 28, 4)] {
            let points = grid.points(true);
            for (i, (axis, series)) in points.iter().enumerate() {
                let before = &points[..=i];
                assert!(before.iter().any(|(a, b)| a == axis && is_base(b, series)), "{axis:?} {series:?}");
                assert_eq!(points.iter().filter(|p| **p == points[i]).count(), 1);
                assert_eq!(MULTIPLE % series.beside, 0);
                assert!(2 * series.work.read <= grid.window, "two reads fit: {series:?}");
            }
            for scope in Scope::EVERY {
                assert!(points.iter().any(|(_, s)| s.scope == scope), "{scope:?}");
            }
        }
    }

    #[test]
    fn without_a_resident_kernel_nothing_is_resident() {
        assert!(Grid::cpu().points(false).iter().all(|(_, s)| !s.resident && s.scope != Scope::InKernel));
    }

    #[test]
    fn two_kilobytes_are_one_workgroup_and_many_fill_the_device() {
        let grid = Grid::gpu(100 << 30, 264);
        assert_eq!(grid.work(2048, DIRTIED).groups, 1);
        assert_eq!(grid.work(320 << 20, DIRTIED).groups, grid.groups);
    }
}
