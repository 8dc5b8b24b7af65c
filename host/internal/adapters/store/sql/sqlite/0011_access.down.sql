DROP TABLE action_keys;
DROP TABLE run_tenants;
-- Without their tenant they would be users of the host itself.
UPDATE users SET locked = 1 WHERE tenant <> '';
ALTER TABLE users DROP COLUMN tenant;
DROP TABLE roles;
UPDATE identity SET version = version + 1 WHERE n = 1;
