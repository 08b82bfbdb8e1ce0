-- What a device told of a visit beside its clock, power and temperature, and of itself when a run began.

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

-- Energy of a launch: of the visits to the whole method whose energy is known, if they took a second together. Less is too near
-- to the steps of the counter.
CREATE VIEW launch_energy AS
SELECT visit.measurement_id AS measurement_id, sum(visit.launches) AS launches,
       sum(visit.energy_mj) / 1000.0 / sum(visit.launches) AS joules
FROM visit
WHERE visit.kind = 'total' AND visit.energy_mj IS NOT NULL
GROUP BY visit.measurement_id
HAVING (SELECT sum(sample.ns) FROM sample JOIN visit AS v ON v.id = sample.visit_id
        WHERE v.measurement_id = visit.measurement_id AND v.kind = 'total' AND v.energy_mj IS NOT NULL) >= 1000000000;
