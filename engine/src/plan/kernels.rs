//! Which kernel does an operation for a weight format.
//!
//! Kernels that read weights come in families, one kernel a format, named after both: `matvec_q4_0`. The families are listed
//! here and the formats in [`WeightType::ALL`], and nowhere a second time; a test holds each family to being complete.

use zinc_shaders::Kernel;

use super::Shape;
use crate::quant::WeightType;

/// An operation with a kernel for every format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// The row of a table that a token names.
    GetRows,
    /// The rows that the tokens of a batch name.
    BatchRows,
    /// A matrix times one vector.
    Matvec,
    /// A matrix times the vectors of a batch.
    Matmul,
    /// The same on cooperative matrices.
    MatmulCoop,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::GetRows => "get_rows",
            Self::BatchRows => "batch_rows",
            Self::Matvec => "matvec",
            Self::Matmul => "matmul",
            Self::MatmulCoop => "matmul_coop",
        }
    }

    /// The family's kernel for weights of this format.
    pub(crate) fn of(self, ty: WeightType) -> &'static Kernel {
        let name = format!("{}_{}", self.name(), ty.to_string().to_lowercase());
        Kernel::by_name(&name).expect("a family has a kernel for every format")
    }
}

/// The embedding kernel for a weight format, and how many invocations a row of `columns` takes.
pub(crate) fn get_rows_dispatch(ty: WeightType, columns: u32) -> (&'static Kernel, u32) {
    let each = match ty {
        WeightType::F32 => 1,
        WeightType::F16 | WeightType::BF16 | WeightType::Q8_0 => 4,
        WeightType::Q5_0 | WeightType::Q4_1 | WeightType::Q4_0 | WeightType::Q4_K => 8,
        WeightType::Q6_K => 16,
    };
    (Family::GetRows.of(ty), columns / each)
}

/// The kernel for a weight format, and the grid that covers `rows` rows: along x first, then along y.
pub(crate) fn matvec_dispatch(
    ty: WeightType,
    rows: u32,
    shape: Shape,
    most_x: u32,
) -> (&'static Kernel, [u64; 2]) {
    let groups = u64::from(rows.div_ceil(shape.rows));
    let x = groups.min(most_x.into()).max(1);
    (Family::Matvec.of(ty), [x, groups.div_ceil(x)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_kernel_of_its_own_for_every_format() {
        let mut names = Vec::new();
        let all = [Family::GetRows, Family::BatchRows, Family::Matvec, Family::Matmul, Family::MatmulCoop];
        for family in all {
            names.extend(WeightType::ALL.map(|ty| family.of(ty).name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5 * WeightType::ALL.len());
    }
}
