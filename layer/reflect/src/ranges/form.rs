//! Sums of unknown integers, each with a factor.
//!
//! An *atom* is an integer about which only bounds are known: a workgroup's number, a loop's count, a quotient, a
//! value from memory. A value of the shader is a [`Form`] over atoms, so that `(row * stride + column) - row * stride`
//! is `column` and not everything that the difference of two intervals could be.

/// Index of an atom.
pub(crate) type Atom = u32;

/// `constant + Σ factor · atom`, over the integers; terms are sorted by atom and have no zero factors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub constant: i128,
    pub terms: Vec<(Atom, i128)>,
}

impl Form {
    pub fn constant(constant: i128) -> Form {
        Form { constant, terms: Vec::new() }
    }

    pub fn atom(atom: Atom) -> Form {
        Form { constant: 0, terms: vec![(atom, 1)] }
    }

    /// The value, where no atom is in it.
    pub fn known(&self) -> Option<i128> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// `self + factor · other`; nothing where numbers become too large.
    pub fn plus(&self, other: &Form, factor: i128) -> Option<Form> {
        let constant = self.constant.checked_add(other.constant.checked_mul(factor)?)?;
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let (atom, sum) = match (a.peek(), b.peek()) {
                (Some((x, fx)), Some((y, fy))) if x == y => {
                    let sum = fx.checked_add(fy.checked_mul(factor)?)?;
                    a.next();
                    b.next();
                    (*x, sum)
                }
                (Some((x, fx)), Some((y, _))) if x < y => {
                    a.next();
                    (*x, *fx)
                }
                (Some((x, fx)), None) => {
                    a.next();
                    (*x, *fx)
                }
                (_, Some((y, fy))) => {
                    let product = fy.checked_mul(factor)?;
                    b.next();
                    (*y, product)
                }
                (None, None) => break,
            };
            if sum != 0 {
                terms.push((atom, sum));
            }
        }
        Some(Form { constant, terms })
    }

    /// `factor · self`.
    pub fn times(&self, factor: i128) -> Option<Form> {
        Form::default().plus(self, factor)
    }

    /// `self + by`.
    pub fn shifted(&self, by: i128) -> Option<Form> {
        Some(Form { constant: self.constant.checked_add(by)?, terms: self.terms.clone() })
    }

    /// The factor of an atom.
    pub fn factor(&self, atom: Atom) -> i128 {
        self.terms.binary_search_by_key(&atom, |term| term.0).map_or(0, |at| self.terms[at].1)
    }

    /// The same number modulo 2^bits, with factors as near to zero as that allows.
    pub fn reduced(mut self, bits: u8) -> Form {
        let modulus = 1i128 << bits;
        let half = modulus >> 1;
        if self.constant.abs() >= modulus {
            self.constant %= modulus;
        }
        for (_, factor) in &mut self.terms {
            if *factor > half || *factor < -half {
                *factor = factor.rem_euclid(modulus);
                if *factor > half {
                    *factor -= modulus;
                }
            }
        }
        self.terms.retain(|(_, factor)| *factor != 0);
        self
    }

    /// Splits into `k · quotient + rest`: terms whose factor `k` divides go to the quotient, the constant's remainder
    /// and the other terms stay.
    pub fn split(&self, k: i128) -> (Form, Form) {
        let (mut quotient, mut rest) = (Form::default(), Form::default());
        for (atom, factor) in &self.terms {
            if factor % k == 0 {
                quotient.terms.push((*atom, factor / k));
            } else {
                rest.terms.push((*atom, *factor));
            }
        }
        quotient.constant = self.constant.div_euclid(k);
        rest.constant = self.constant.rem_euclid(k);
        (quotient, rest)
    }
}
