//! How a product of a batch is cut for cooperative matrices (VK_KHR_cooperative_matrix).
//!
//! The device multiplies small matrices, a subgroup each. A workgroup takes a tile of rows and tokens: the larger it is, the
//! less is read and unpacked twice, and the fewer workgroups there are to fill the device with. So the tile follows the
//! matrix: the largest that leaves every processor one, or the smallest.

use zinc_shaders::matmul_coop::Constants;

use super::{Error, Limits, Tuning};

/// What a subgroup multiplies at once: `m` x `k` halves with `k` x `n`, added to `m` x `n` floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Rows of the first factor.
    pub m: u32,
    /// Columns of the second factor.
    pub n: u32,
    /// What is summed over.
    pub k: u32,
    /// Invocations in a subgroup.
    pub subgroup: u32,
}

/// The shapes of matrices that the kernels multiply on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    /// For a prompt's products.
    pub product: Fragment,
    /// For the attention of one token, where the device also adds up over a subgroup.
    pub attention: Option<Fragment>,
}

/// Whether a device multiplies matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cooperative {
    /// It does.
    Has(Shapes),
    /// It does not, for this reason.
    Lacks(&'static str),
}

/// Sizes of the kernel on cooperative matrices. The bits of a result depend on none of them but `depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoopTuning {
    /// Rows of the largest tile that is chosen by itself; below all of them for two fragments by two.
    pub largest: u32,
    /// Rows of a workgroup; 0 for what suits the matrix.
    pub rows: u32,
    /// Tokens of a workgroup.
    pub tokens: u32,
    /// Rows of a subgroup.
    pub sub_rows: u32,
    /// Tokens of a subgroup.
    pub sub_tokens: u32,
    /// Columns in shared memory at a time.
    pub depth: u32,
}

impl CoopTuning {
    /// Tiles by matrix.
    pub const BY_MATRIX: Self =
        Self { largest: 128, rows: 0, tokens: 0, sub_rows: 0, sub_tokens: 0, depth: 32 };
    /// The smallest tile: a CPU driver has few invocations in step, and takes long to compile what is unrolled.
    pub const SMALLEST: Self = Self { largest: 0, ..Self::BY_MATRIX };
}

/// Rows and tokens of a workgroup and of a subgroup, the largest first.
const TILES: [[u32; 4]; 2] = [[64, 128, 32, 32], [64, 64, 32, 16]];
/// Fragments of a subgroup, at most, as in matmul_coop.comp.
const MOST_FRAGMENTS: u32 = 16;

/// A product, cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoopTile {
    sizes: [u32; 4],
    depth: u32,
    fragment: Fragment,
}

impl CoopTile {
    /// The tile for a matrix of `rows` and a batch of `tokens`.
    pub(crate) fn choose(
        rows: u32,
        tokens: u32,
        fragment: Fragment,
        tuning: &Tuning,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let t = tuning.coop;
        let tile = |sizes| Self { sizes, depth: t.depth, fragment };
        if t.rows > 0 {
            let fixed = tile([t.rows, t.tokens, t.sub_rows, t.sub_tokens]);
            return if fixed.fits(limits) { Ok(fixed) } else { Err(fixed.error()) };
        }
        let Fragment { m, n, .. } = fragment;
        let smallest = tile([2 * m, 2 * n, m, n]);
        let known = TILES.into_iter().filter(|sizes| sizes[0] <= t.largest).map(tile);
        let fitting: Vec<_> = known.filter(|tile| tile.fits(limits)).collect();
        let fills = |tile: &&Self| {
            let [x, y] = tile.grid(rows, tokens);
            u64::from(x) * u64::from(y) >= tuning.fused.groups.into()
        };
        let chosen = fitting.iter().find(fills).or(fitting.last()).copied();
        chosen.or(Some(smallest).filter(|tile| tile.fits(limits))).ok_or_else(|| smallest.error())
    }

    /// Whether the sizes go into one another and the device can run it.
    fn fits(&self, limits: &Limits) -> bool {
        let ([rows, tokens, sub_rows, sub_tokens], Fragment { m, n, k, .. }) = (self.sizes, self.fragment);
        let divides = |part: u32, whole: u32| part > 0 && whole > 0 && whole.is_multiple_of(part);
        divides(sub_rows, rows)
            && divides(sub_tokens, tokens)
            && divides(m, sub_rows)
            && divides(n, sub_tokens)
            && (sub_rows / m) * (sub_tokens / n) <= MOST_FRAGMENTS
            && divides(k, self.depth)
            && divides(16, self.depth)
            && k.is_multiple_of(8)
            && self.threads() <= limits.workgroup
            && self.shared_memory() <= limits.shared_memory
    }

    fn error(&self) -> Error {
        let Fragment { m, n, k, .. } = self.fragment;
        Error::Cooperative { tile: self.to_string(), fragment: format!("{m}x{n}x{k}") }
    }

    fn subgroups(&self) -> u32 {
        let [rows, tokens, sub_rows, sub_tokens] = self.sizes;
        (rows / sub_rows) * (tokens / sub_tokens)
    }

    fn threads(&self) -> u32 {
        self.subgroups() * self.fragment.subgroup
    }

    /// As declared in matmul_coop.comp: two tiles of halves with eight more a row, and a fragment of floats a subgroup.
    fn shared_memory(&self) -> u32 {
        let [rows, tokens, ..] = self.sizes;
        2 * (rows + tokens) * (self.depth + 8) + 4 * self.subgroups() * self.fragment.m * self.fragment.n
    }

    /// The kernel's specialization.
    pub(crate) fn constants(&self) -> Constants {
        let Fragment { m, n, k, .. } = self.fragment;
        let [rows, tokens, sub_rows, sub_tokens] = self.sizes;
        Constants {
            workgroup: self.threads(),
            rows,
            tokens,
            sub_rows,
            sub_tokens,
            m,
            n,
            k,
            depth: self.depth,
        }
    }

    /// Workgroups for a matrix of `rows` and a batch of `tokens`.
    pub(crate) fn grid(&self, rows: u32, tokens: u32) -> [u32; 2] {
        [rows.div_ceil(self.sizes[0]), tokens.div_ceil(self.sizes[1])]
    }
}

impl std::fmt::Display for CoopTile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [rows, tokens, sub_rows, sub_tokens] = self.sizes;
        write!(f, "tile={rows}x{tokens} part={sub_rows}x{sub_tokens} depth={}", self.depth)
    }
}

/// Bytes of a batch's vectors as halves, as batch_halves.comp writes them: each with sixteen bytes before it for its scale.
pub(crate) fn halves_bytes(columns: u32, batch: u32) -> u64 {
    16 * (1 + u64::from(columns.div_ceil(8))) * u64::from(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVIDIA: Fragment = Fragment { m: 16, n: 16, k: 16, subgroup: 32 };

    fn limits(shared_memory: u32) -> Limits {
        Limits { shared_memory, ..Limits::TYPICAL }
    }

    #[test]
    fn a_gpu_gets_the_largest_tile_that_fills_it_and_a_cpu_the_smallest() {
        for (rows, tile_of, across) in [(1, 1, 8), (576, 1, 8), (2560, 0, 4), (9728, 0, 4)] {
            let tile = CoopTile::choose(rows, 512, NVIDIA, &Tuning::GPU, &limits(49152)).unwrap();
            assert_eq!(tile.sizes, TILES[tile_of]);
            assert_eq!(tile.threads(), 256);
            assert_eq!(tile.grid(rows, 512), [rows.div_ceil(64), across]);
        }
        let lavapipe = Fragment { m: 8, n: 8, k: 8, subgroup: 8 };
        let cpu = CoopTile::choose(9728, 512, lavapipe, &Tuning::CPU, &limits(32768)).unwrap();
        assert_eq!((cpu.sizes, cpu.threads()), ([16, 16, 8, 8], 32));
    }

    #[test]
    fn a_tile_that_does_not_fit_the_device_is_passed_over_and_one_asked_for_is_refused() {
        let small = limits(16384);
        let tile = CoopTile::choose(9728, 512, NVIDIA, &Tuning::GPU, &small).unwrap();
        assert!(tile.sizes != TILES[0] && tile.shared_memory() <= 16384);
        assert!(CoopTile::choose(9728, 512, NVIDIA, &Tuning::GPU, &limits(1024)).is_err());
        let asked = |coop| Tuning { coop, ..Tuning::GPU };
        let forced =
            CoopTuning { rows: 128, tokens: 128, sub_rows: 64, sub_tokens: 32, ..CoopTuning::BY_MATRIX };
        let refused =
            |coop| CoopTile::choose(9728, 512, NVIDIA, &asked(coop), &small).unwrap_err().to_string();
        assert!(refused(forced).contains("128x128"), "{}", refused(forced));
        for odd in [
            CoopTuning { rows: 64, sub_rows: 24, ..forced },
            CoopTuning { rows: 32, tokens: 32, sub_rows: 32, depth: 8, ..forced },
            CoopTuning { rows: 32, tokens: 32, sub_rows: 0, ..forced },
        ] {
            assert!(refused(odd).contains("--matrix plain"), "{odd:?}");
        }
    }
}
