//! Alert rules over exported text: as much of Prometheus's language as docs/alerts.yml speaks.
//!
//! A range is the two scrapes that there are, one at each end: `rate` is their difference over the
//! time between them, `increase` the difference itself. How long a rule must hold (`for`) is not
//! asked: the expression is.

use std::collections::BTreeMap;

/// Labels of a sample.
type Labels = BTreeMap<String, String>;
/// Samples of an instant, by their labels.
type Vector = Vec<(Labels, f64)>;

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) expr: String,
}

/// The rules of an alert file.
pub(crate) fn rules(file: &str) -> Vec<Rule> {
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|l| l.trim().strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .to_string()
    };
    let rules = file.split("- alert: ").skip(1).map(|text| Rule {
        name: text.lines().next().expect("a name").to_string(),
        expr: field(text, "expr: "),
    });
    rules.collect()
}

/// Two scrapes, and the seconds between them.
pub(crate) struct Scrapes {
    before: Vec<(String, Labels, f64)>,
    after: Vec<(String, Labels, f64)>,
    seconds: f64,
}

impl Scrapes {
    pub(crate) fn new(before: &str, after: &str, seconds: f64) -> Scrapes {
        Scrapes {
            before: samples(before),
            after: samples(after),
            seconds,
        }
    }

    /// The samples for which a rule fires.
    pub(crate) fn firing(&self, expr: &str) -> Vec<Labels> {
        let mut parser = Parser {
            scrapes: self,
            rest: expr,
        };
        let vector = parser.comparison();
        assert_eq!(parser.rest.trim(), "", "not understood, in {expr}");
        vector.into_iter().map(|(labels, _)| labels).collect()
    }
}

fn samples(text: &str) -> Vec<(String, Labels, f64)> {
    let lines = text
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty());
    let sample = |line: &str| {
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let labels = labels.strip_suffix('}').expect("a brace");
        (
            name.to_string(),
            pairs(labels, "=").collect(),
            value.parse().expect("a number"),
        )
    };
    let labelled = |(name, labels, value): (String, Vec<(String, String)>, f64)| {
        (name, labels.into_iter().collect(), value)
    };
    lines.map(sample).map(labelled).collect()
}

/// Labels and values, without quotes inside of values.
fn pairs<'a>(text: &'a str, sign: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    text.split_terminator("\",")
        .map(|pair| pair.trim_end_matches('"'))
        .filter(|pair| !pair.is_empty())
        .map(move |pair| {
            let (label, value) = pair.split_once(&format!("{sign}\"")).expect(pair);
            (
                label.trim_start_matches(',').trim().to_string(),
                value.to_string(),
            )
        })
}

/// Whether a matcher of a selector holds.
fn holds(labels: &Labels, matcher: &str) -> bool {
    let signs = ["=~", "!=", "="];
    let sign = signs
        .iter()
        .find(|sign| matcher.contains(&format!("{sign}\"")));
    let sign = sign.unwrap_or_else(|| panic!("{matcher} is no matcher"));
    let (label, wanted) = pairs(matcher, sign).next().expect("a pair");
    let found = labels.get(&label).map_or("", String::as_str);
    match *sign {
        "=~" => wanted.split('|').any(|one| one == found),
        "!=" => wanted != found,
        _ => wanted == found,
    }
}

struct Parser<'a> {
    scrapes: &'a Scrapes,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) {
        assert!(self.eat(token), "{token} was expected before {}", self.rest);
    }

    fn until(&mut self, ends: &[char]) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.trim()
    }

    fn comparison(&mut self) -> Vector {
        let left = self.sum();
        let signs = ["==", ">=", "<=", ">", "<"];
        let sign = signs.into_iter().find(|sign| self.eat(sign));
        let sign = sign.unwrap_or_else(|| panic!("no comparison before {}", self.rest));
        let right = self.number();
        let holds = |value: f64| match sign {
            "==" => value == right,
            ">=" => value >= right,
            "<=" => value <= right,
            ">" => value > right,
            _ => value < right,
        };
        left.into_iter()
            .filter(|(_, value)| holds(*value))
            .collect()
    }

    /// Differences and quotients of samples with the same labels.
    fn sum(&mut self) -> Vector {
        let mut left = self.term();
        loop {
            let is_quotient = self.eat("/");
            if !is_quotient && !self.eat("-") {
                return left;
            }
            let right = self.term();
            let both = left.into_iter().filter_map(|(labels, a)| {
                let (_, b) = right.iter().find(|(other, _)| *other == labels)?;
                Some((labels, if is_quotient { a / b } else { a - b }))
            });
            left = both.collect();
        }
    }

    fn number(&mut self) -> f64 {
        let text = self.until(&[',', ')', ' ']);
        text.parse()
            .unwrap_or_else(|_| panic!("{text} is no number"))
    }

    fn term(&mut self) -> Vector {
        if self.eat("sum by (") {
            let by: Vec<&str> = self.until(&[')']).split(',').map(str::trim).collect();
            self.expect(")");
            self.expect("(");
            let inner = self.sum();
            self.expect(")");
            let mut sums = BTreeMap::<Labels, f64>::new();
            for (labels, value) in inner {
                let kept = labels
                    .into_iter()
                    .filter(|(label, _)| by.contains(&&**label));
                *sums.entry(kept.collect()).or_default() += value;
            }
            return sums.into_iter().collect();
        }
        if self.eat("histogram_quantile(") {
            let part = self.number();
            self.expect(",");
            let buckets = self.sum();
            self.expect(")");
            return quantiles(part, buckets);
        }
        for function in ["increase", "rate", "min_over_time"] {
            if self.eat(&format!("{function}(")) {
                let ends = self.selector();
                self.expect(")");
                return ends
                    .into_iter()
                    .map(|(labels, before, after)| {
                        let grown = if after < before {
                            after
                        } else {
                            after - before
                        };
                        let value = match function {
                            "increase" => grown,
                            "rate" => grown / self.scrapes.seconds,
                            _ => before.min(after),
                        };
                        (labels, value)
                    })
                    .collect();
            }
        }
        let ends = self.selector().into_iter();
        ends.map(|(labels, _, after)| (labels, after)).collect()
    }

    /// The samples of a selector, at both ends of its range.
    fn selector(&mut self) -> Vec<(Labels, f64, f64)> {
        let name = self.until(&['{', '[', ')', ' ']);
        assert!(
            name.starts_with("firstseen_"),
            "{name:?} before {}",
            self.rest
        );
        let mut matchers = Vec::new();
        if self.eat("{") {
            matchers = self.until(&['}']).split_inclusive("\",").collect();
            self.expect("}");
        }
        if self.eat("[") {
            self.until(&[']']);
            self.expect("]");
        }
        let is_meant = |sample: &&(String, Labels, f64)| {
            sample.0 == name && matchers.iter().all(|m| holds(&sample.1, m))
        };
        let after = self.scrapes.after.iter().filter(is_meant);
        let ends = after.map(|(_, labels, after)| {
            let before = self.scrapes.before.iter().filter(is_meant);
            let before = before.filter(|(_, l, _)| l == labels).map(|s| s.2).next();
            (labels.clone(), before.unwrap_or(0.0), *after)
        });
        ends.collect()
    }
}

fn quantiles(part: f64, buckets: Vector) -> Vector {
    let mut groups = BTreeMap::<Labels, Vec<(f64, f64)>>::new();
    for (mut labels, count) in buckets {
        let end = labels.remove("le").expect("a bucket has an end");
        let end = end.parse().unwrap_or(f64::INFINITY);
        groups.entry(labels).or_default().push((end, count));
    }
    let quantile = |(labels, mut buckets): (Labels, Vec<(f64, f64)>)| {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted = buckets.last()?.1 * part;
        let reached = buckets
            .iter()
            .find(|(_, count)| *count >= wanted && *count > 0.0);
        reached.map(|(end, _)| (labels, *end))
    };
    groups.into_iter().filter_map(quantile).collect()
}

#[test]
fn rules_are_evaluated_as_prometheus_does() {
    let text = |n: u64, slow: u64| {
        format!(
            "# HELP x\nfirstseen_a_total{{store=\"s\",kind=\"x\"}} {n}\n\
             firstseen_a_total{{store=\"s\",kind=\"y\"}} 10\nfirstseen_b{{store=\"s\"}} 2\n\
             firstseen_c_bucket{{le=\"0.5\"}} 100\nfirstseen_c_bucket{{le=\"1\"}} {slow}\n\
             firstseen_c_bucket{{le=\"+Inf\"}} {slow}\n"
        )
    };
    let scrapes = Scrapes::new(&text(5, 100), &text(25, 150), 10.0);
    for (expr, fires) in [
        ("firstseen_b == 2", 1),
        ("firstseen_b > 2", 0),
        ("firstseen_missing > 0", 0),
        ("firstseen_a_total{kind=\"x\"} >= 25", 1),
        ("firstseen_a_total{kind=~\"x|y\",store=\"s\"} > 0", 2),
        ("firstseen_a_total{kind=~\"x|y\",store=\"t\"} > 0", 0),
        ("increase(firstseen_a_total[5m]) > 19", 1),
        ("increase(firstseen_a_total{kind=\"y\"}[5m]) > 0", 0),
        ("rate(firstseen_a_total[5m]) > 1.9", 1),
        ("rate(firstseen_a_total[5m]) > 2", 0),
        ("min_over_time(firstseen_a_total[5m]) >= 6", 1),
        ("sum by (store) (firstseen_a_total) - firstseen_b > 32", 1),
        ("sum by (store) (firstseen_a_total) / firstseen_b < 17.6", 1),
        (
            "sum by (store) (rate(firstseen_a_total{kind=\"x\"}[1m])) / \
          sum by (store) (rate(firstseen_a_total[1m])) > 0.9",
            1,
        ),
        ("firstseen_b - firstseen_b < -1", 0),
        (
            "histogram_quantile(0.99, sum by (le) (rate(firstseen_c_bucket[5m]))) > 0.5",
            1,
        ),
        (
            "histogram_quantile(0.99, sum by (le) (firstseen_c_bucket{le!=\"1\"})) > 2",
            1,
        ),
    ] {
        assert_eq!(scrapes.firing(expr).len(), fires, "{expr}");
    }
}
