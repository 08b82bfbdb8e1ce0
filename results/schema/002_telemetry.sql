-- What a device told of a visit beside its clock, power and temperature, and of itself when a run began; and the machine
-- code that it ran.

ALTER TABLE visit ADD COLUMN memory_clock_mhz REAL
    CONSTRAINT "memory_clock_mhz must not be negative" CHECK (memory_clock_mhz >= 0);
ALTER TABLE visit ADD COLUMN energy_mj INTEGER CONSTRAINT "energy_mj must not be negative" CHECK (energy_mj >= 0);
ALTER TABLE visit ADD COLUMN power_capped_ns INTEGER
    CONSTRAINT "power_capped_ns must not be negative" CHECK (power_capped_ns >= 0);
ALTER TABLE visit ADD COLUMN software_thermal_ns INTEGER
    CONSTRAINT "software_thermal_ns must not be negative" CHECK (software_thermal_ns >= 0);
ALTER TABLE visit ADD COLUMN hardware_thermal_ns INTEGER
    CONSTRAINT "hardware_thermal_ns must not be negative" CHECK (hardware_thermal_ns >= 0);
ALTER TABLE visit ADD COLUMN power_braked_ns INTEGER
    CONSTRAINT "power_braked_ns must not be negative" CHECK (power_braked_ns >= 0);
ALTER TABLE run ADD COLUMN device_code_sha256 TEXT;
ALTER TABLE run ADD COLUMN power_limit_mw INTEGER
    CONSTRAINT "power_limit_mw must not be negative" CHECK (power_limit_mw >= 0);
ALTER TABLE run ADD COLUMN max_sm_clock_mhz INTEGER
    CONSTRAINT "max_sm_clock_mhz must not be negative" CHECK (max_sm_clock_mhz >= 0);
ALTER TABLE run ADD COLUMN ecc INTEGER CONSTRAINT "ecc must be 0 or 1" CHECK (ecc IN (0, 1));
ALTER TABLE run ADD COLUMN persistence INTEGER CONSTRAINT "persistence must be 0 or 1" CHECK (persistence IN (0, 1));
ALTER TABLE run ADD COLUMN mig INTEGER CONSTRAINT "mig must be 0 or 1" CHECK (mig IN (0, 1));
ALTER TABLE run ADD COLUMN vbios TEXT;
ALTER TABLE run ADD COLUMN pci TEXT;
ALTER TABLE run ADD COLUMN processes INTEGER
    CONSTRAINT "processes must not be negative" CHECK (processes >= 0);

-- Energy of a launch: of visits to the whole method that took a second or more each. Shorter ones are too near to the steps
-- of the counter, and the errors of many do not cancel.
CREATE VIEW launch_energy AS
WITH long_visit AS (
    SELECT visit.id, visit.measurement_id, visit.launches, visit.energy_mj
    FROM visit JOIN sample ON sample.visit_id = visit.id
    WHERE visit.kind = 'total' AND visit.energy_mj IS NOT NULL
    GROUP BY visit.id
    HAVING sum(sample.ns) >= 1000000000
)
SELECT measurement_id, sum(launches) AS launches, sum(energy_mj) / 1000.0 / sum(launches) AS joules
FROM long_visit GROUP BY measurement_id;
