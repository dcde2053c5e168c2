-- Metrics: series and their points, and the tap that makes points of log lines. Written by telemetry only.

create table metric_series (
    id         integer primary key,
    space      text not null,            -- namespace
    name       text not null,
    dimensions text not null,            -- JSON: [["name","value"],...] sorted by name
    next       integer not null,         -- number of points so far
    last_time  integer not null,         -- the last point by arrival, epoch milliseconds
    last_value real not null,
    unique (space, name, dimensions)
) strict;

create table metric_point (
    series integer not null references metric_series (id),
    time   integer not null,             -- epoch milliseconds
    number integer not null,             -- order of arrival within the series
    value  real not null,
    primary key (series, time, number)
) strict, without rowid;

-- Jobs whose log lines are being read, and how far. A cursor moves with its points, in one transaction.
create table metric_watch (
    space       text not null,           -- log group and namespace
    job         text not null,
    definitions text not null,           -- JSON: [["name","regex"],...]
    primary key (space, job)
) strict, without rowid;

create table metric_cursor (
    space  text not null,
    job    text not null,
    stream text not null,
    next   integer not null,             -- index of the first line not yet read
    primary key (space, job, stream)
) strict, without rowid;
