//! A line through what was measured: a fixed cost, and what each further byte or neighbour adds.
//!
//! Ordinary least squares by the normal equations, with at most four unknowns. The residual stands beside the result,
//! because the truth need not be a line: where a barrier's cost saturates, the line says so by how badly it fits.

/// Coefficients and how well they fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// One for each column.
    pub coefficients: Vec<f64>,
    /// Root of the mean square of what is left over.
    pub rms: f64,
    /// The largest of what is left over, as a magnitude.
    pub worst: f64,
}

/// The coefficients `c` for which `rows · c` comes nearest to `values`. `None` when the rows do not determine them.
pub fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Option<Line> {
    let columns = rows.first()?.len();
    if rows.len() < columns || rows.len() != values.len() || rows.iter().any(|r| r.len() != columns) {
        return None;
    }
    // Columns of very different size would make the equations ill-conditioned.
    let scale: Vec<f64> = (0..columns).map(|j| rows.iter().map(|r| r[j].abs()).fold(0.0, f64::max)).collect();
    if scale.contains(&0.0) {
        return None;
    }
    let mut equations: Vec<Vec<f64>> = (0..columns)
        .map(|i| {
            let entry =
                |f: &dyn Fn(usize) -> f64| (0..rows.len()).map(|k| rows[k][i] / scale[i] * f(k)).sum();
            let mut row: Vec<f64> = (0..columns).map(|j| entry(&|k| rows[k][j] / scale[j])).collect();
            row.push(entry(&|k| values[k]));
            row
        })
        .collect();
    let scaled = solve(&mut equations)?;
    let coefficients: Vec<f64> = scaled.iter().zip(&scale).map(|(c, s)| c / s).collect();
    let left = rows
        .iter()
        .zip(values)
        .map(|(row, value)| value - row.iter().zip(&coefficients).map(|(x, c)| x * c).sum::<f64>());
    let left: Vec<f64> = left.collect();
    let rms = (left.iter().map(|l| l * l).sum::<f64>() / left.len() as f64).sqrt();
    let worst = left.iter().map(|l| l.abs()).fold(0.0, f64::max);
    Some(Line { coefficients, rms, worst })
}

/// Gauss with row pivots; each equation ends with its right side.
fn solve(equations: &mut [Vec<f64>]) -> Option<Vec<f64>> {
    let n = equations.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| equations[*a][i].abs().total_cmp(&equations[*b][i].abs()))?;
        equations.swap(i, pivot);
        if equations[i][i].abs() < 1e-10 {
            return None;
        }
        let upper = equations[i].clone();
        for (j, row) in equations.iter_mut().enumerate() {
            if j != i {
                let factor = row[i] / upper[i];
                row.iter_mut().zip(&upper).for_each(|(a, b)| *a -= factor * b);
            }
        }
    }
    Some((0..n).map(|i| equations[i][n] / equations[i][i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_line_is_found_whatever_the_units() {
        let rows: Vec<Vec<f64>> =
            (0..12).map(|i| vec![1.0, f64::from(i % 4) * 1e8, f64::from(i / 4)]).collect();
        let values: Vec<f64> = rows.iter().map(|r| 2.6 + 3e-9 * r[1] - 0.25 * r[2]).collect();
        let line = least_squares(&rows, &values).unwrap();
        for (found, true_one) in line.coefficients.iter().zip([2.6, 3e-9, -0.25]) {
            assert!((found / true_one - 1.0).abs() < 1e-9, "{line:?}");
        }
        assert!(line.rms < 1e-9 && line.worst < 1e-9);
    }

    #[test]
    fn what_does_not_fit_is_in_the_residual() {
        let rows: Vec<Vec<f64>> = (0..4).map(|i| vec![1.0, f64::from(i)]).collect();
        let line = least_squares(&rows, &[0.0, 1.0, 1.0, 0.0]).unwrap();
        assert!((line.coefficients[0] - 0.5).abs() < 1e-12 && line.coefficients[1].abs() < 1e-12);
        assert!((line.rms - 0.5).abs() < 1e-12 && (line.worst - 0.5).abs() < 1e-12);
    }

    #[test]
    fn rows_that_do_not_determine_a_line_give_none() {
        let same = vec![vec![1.0, 2.0]; 5];
        assert_eq!(least_squares(&same, &[1.0; 5]), None);
        assert_eq!(least_squares(&[vec![1.0, 2.0]], &[1.0]), None);
        assert_eq!(least_squares(&[vec![1.0, 0.0], vec![1.0, 0.0]], &[1.0, 1.0]), None);
        assert_eq!(least_squares(&[], &[]), None);
    }
}
