//! Medians and percentiles.

/// Measured values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Returns the smallest value that this share of all values does not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// Describes the median and, in brackets, the least and the most.
    pub(crate) fn spread(&self) -> String {
        let [least, middle, most] = [0.0, 50.0, 100.0].map(|percent| self.percentile(percent));
        format!("{middle:.2} ({least:.2}–{most:.2})")
    }

    /// Divides values measured in the same turn, so that a slow moment of the machine weighs on both.
    pub(crate) fn over(&self, reference: &Self) -> Self {
        self.0.iter().zip(&reference.0).map(|(ours, theirs)| ours / theirs).collect()
    }

    /// Subtracts values measured in the same turn.
    pub(crate) fn minus(&self, reference: &Self) -> Self {
        self.0.iter().zip(&reference.0).map(|(ours, theirs)| ours - theirs).collect()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let samples: Samples = (1..=100).rev().map(f64::from).collect();
        assert_eq!((samples.median(), samples.percentile(99.0), samples.percentile(100.0)), (50.0, 99.0, 100.0));
        let few: Samples = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!((few.median(), few.percentile(99.0)), (2.0, 3.0));
        assert_eq!(few.spread(), "2.00 (1.00–3.00)");
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn pairs_are_compared_turn_by_turn() {
        let ours: Samples = [2.0, 40.0, 6.0].into_iter().collect();
        let theirs: Samples = [1.0, 20.0, 2.0].into_iter().collect();
        assert_eq!(ours.over(&theirs).median(), 2.0);
        assert_eq!(ours.minus(&theirs).median(), 4.0);
    }
}
