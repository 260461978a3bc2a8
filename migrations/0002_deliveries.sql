-- The last delivery of an alert to a receiver as JSON (src/notify/delivery.rs). People query the view `delivery`.
-- Alerts are deleted without their deliveries, which follow: an alert may come later than its first delivery.
CREATE TABLE delivery_record (
    alert    INTEGER NOT NULL,
    receiver TEXT    NOT NULL CHECK (receiver <> ''),
    body     TEXT    NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (alert, receiver)
) STRICT, WITHOUT ROWID;

CREATE VIEW delivery AS
SELECT alert, receiver, body ->> '$.known.status' AS known_status, body ->> '$.known.severity' AS known_severity,
    CAST(round((julianday(body ->> '$.known.at') - 2440587.5) * 86400000) AS INTEGER) AS known_ms,
    body ->> 'is_delivered' AS is_delivered, body ->> 'tries' AS tries,
    CAST(round((julianday(body ->> 'tried_at') - 2440587.5) * 86400000) AS INTEGER) AS tried_ms,
    body ->> 'answer' AS answer
FROM delivery_record;

-- Alerts of these volumes are not delivered until then. One that is over stays until retention deletes it.
CREATE TABLE silence (
    volumes  TEXT    PRIMARY KEY CHECK (volumes <> ''),          -- a pattern of vg/lv
    until_ms INTEGER NOT NULL,
    note     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
