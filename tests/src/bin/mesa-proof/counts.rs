//! The few numbers of a command stream that barriers move, and how they are written.

use std::fmt;

use zinc_packets_core::report::Pm4;

/// Counts of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Waits for all compute work.
    pub idle: u64,
    /// ACQUIRE_MEM or SURFACE_SYNC.
    pub acquires: u64,
    /// RELEASE_MEM or EVENT_WRITE_EOP.
    pub releases: u64,
    /// Of acquires and releases, those that write back or invalidate the L2.
    pub l2: u64,
    /// PFP_SYNC_ME.
    pub syncs: u64,
}

impl Counts {
    /// The counts of a command stream.
    pub fn of(pm4: &Pm4) -> Counts {
        let l2 = ["GL2_INV", "GL2_WB", "TC_ACTION_ENA", "TC_WB_ACTION_ENA"];
        // With TC_MD_ACTION_ENA only the L2's metadata is meant (GFX9).
        let has = |bits: &[String], name: &str| bits.iter().any(|bit| bit == name);
        let touches =
            |bits: &[String]| l2.iter().any(|name| has(bits, name)) && !has(bits, "TC_MD_ACTION_ENA");
        Counts {
            idle: pm4.cs_partial_flushes,
            acquires: pm4.acquires,
            releases: pm4.releases,
            l2: pm4.cache_ops.iter().filter(|op| touches(&op.bits)).map(|op| op.count).sum(),
            syncs: pm4.pfp_sync_me,
        }
    }

    /// What `self` has more than `other`, or nothing where `other` has more.
    pub fn since(self, other: Counts, tokens: u64) -> Counts {
        let each = |a: u64, b: u64| a.saturating_sub(b) / tokens;
        Counts {
            idle: each(self.idle, other.idle),
            acquires: each(self.acquires, other.acquires),
            releases: each(self.releases, other.releases),
            l2: each(self.l2, other.l2),
            syncs: each(self.syncs, other.syncs),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.idle, self.acquires, self.releases, self.l2, self.syncs)
    }
}
