//! Texts with the fields of a message.

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde_json::json;

use super::super::message::{AlertState, Message};

/// A template and its own values.
pub struct Template {
    key: &'static str,
    text: String,
    values: BTreeMap<String, String>,
}

impl Template {
    /// Errors name this key of the configuration.
    pub fn new(key: &'static str, text: &str, values: &BTreeMap<String, String>) -> Self {
        Self {
            key,
            text: text.into(),
            values: values.clone(),
        }
    }

    pub fn render(&self, message: &Message) -> Result<String, String> {
        let mut environment = Environment::new();
        // A field that is missing is an error, except in a condition.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        let text = environment.render_str(&self.text, Value::from(Serde(self.fields(message))));
        text.map_err(|error| format!("`{}`: {error}", self.key))
    }

    /// Fails if it names a field that messages do not have.
    pub fn check(&self, message: &Message) -> Result<(), String> {
        let refuse = |why: &dyn std::fmt::Display| format!("`{}`: {why}", self.key);
        let environment = Environment::new();
        let template = environment
            .template_from_str(&self.text)
            .map_err(|error| refuse(&error))?;
        let fields = self.fields(message);
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.sort();
        let is_known = |name: &String| {
            fields.get(name).is_some() || environment.globals().any(|it| it.0 == name)
        };
        match names.iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&String> = fields
                    .as_object()
                    .into_iter()
                    .flat_map(|fields| fields.keys())
                    .collect();
                Err(refuse(&format_args!(
                    "a message has no field {name:?}: expected one of {known:?}"
                )))
            }
        }
    }

    /// The fields of the message and of its most important alert, all alerts as a list, and the values.
    fn fields(&self, message: &Message) -> serde_json::Value {
        let mut fields = fields_of(message, &message.first);
        let alerts: Vec<_> = message
            .alerts()
            .map(|state| fields_of(message, state))
            .collect();
        fields["host"] = json!(message.host);
        fields["title"] = json!(message.title());
        fields["text"] = json!(message.text());
        fields["is_test"] = json!(message.is_test);
        fields["others"] = json!(alerts[1..]);
        fields["alerts"] = json!(alerts);
        fields["values"] = json!(self.values);
        fields
    }
}

fn fields_of(message: &Message, state: &AlertState) -> serde_json::Value {
    let mut fields = json!(state);
    fields["title"] = json!(state.title());
    fields["volume"] = json!(state.alert.volume().unwrap_or_else(|| "cowbell".into()));
    fields["key"] = json!(message.key(state));
    fields
}
