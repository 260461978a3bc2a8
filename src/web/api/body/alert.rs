//! An alert with its deliveries.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::alert::Alert;
use crate::notify::Delivery;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AlertBody {
    #[serde(flatten)]
    pub alert: Alert,
    /// The last delivery to each receiver.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
}
