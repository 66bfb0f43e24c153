//! What one run measured: figures under the names that the output uses, and, of a long run, how
//! they went on over time.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The figures of one moment of a long run.
pub type Moment = BTreeMap<String, f64>;

/// What one run measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    figures: BTreeMap<String, f64>,
    pub moments: Vec<Moment>,
}

impl Sample {
    pub fn set(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.figures.keys().map(String::as_str)
    }

    /// The sample as the process of a run prints it.
    pub fn to_json(&self) -> Value {
        let moments: Vec<Value> = self.moments.iter().map(|m| json!(m)).collect();
        json!({ "figures": self.figures, "moments": moments })
    }

    /// Reads what [`Sample::to_json`] wrote.
    pub fn from_json(value: &Value) -> Option<Sample> {
        let moments = value.get("moments")?.as_array()?;
        let moments = moments.iter().map(|m| numbers(m.as_object()?));
        Some(Sample {
            figures: numbers(value.get("figures")?.as_object()?)?,
            moments: moments.collect::<Option<_>>()?,
        })
    }
}

fn numbers(object: &Map<String, Value>) -> Option<BTreeMap<String, f64>> {
    let pairs = object.iter();
    pairs.map(|(n, v)| Some((n.clone(), v.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_survives_json() {
        let mut sample = Sample::default();
        sample.set("ids_per_s", 1234.5);
        sample.moments.push([("s".to_owned(), 1.0)].into());
        assert_eq!(Sample::from_json(&sample.to_json()), Some(sample));
        assert_eq!(Sample::from_json(&json!({"ids_per_s": 1})), None);
        let wrong = json!({"figures": {"ids_per_s": "fast"}, "moments": []});
        assert_eq!(Sample::from_json(&wrong), None);
    }
}
