-- Training jobs. Written by jobs only. The row is the outbox too: what is still to be done for a job
-- (launch, release) follows from its state, and live = 1 finds those jobs after a restart.

-- Narrow: lists and filters read nothing else.
create table job (
    number      integer primary key,      -- order of creation
    id          text not null unique,
    account     text not null,
    region      text not null,
    name        text not null,
    name_key    text not null,            -- lower case
    arn         text not null,
    status      text not null,
    secondary   text not null,
    created     integer not null,         -- epoch milliseconds
    modified    integer not null,
    ended       integer,
    version     integer not null,
    live        integer not null,         -- 1 until the job is terminal and its attempt released
    idempotency text not null,            -- the client's invocation id; may be empty
    unique (region, name_key, account)
) strict;
-- name_key and modified at the end let filters be decided without looking at the row.
create index job_created on job (region, created, number, name_key, modified);
create index job_status_created on job (region, status, created, number, name_key, modified);
create index job_status_name on job (region, status, name_key, number);
create index job_live on job (number) where live = 1;

-- What changes as the job moves.
create table job_state (
    number integer primary key references job (number) on delete cascade,
    state  text not null                  -- JSON
) strict;

-- What does not change.
create table job_spec (
    number         integer primary key references job (number) on delete cascade,
    instance_count integer not null,
    warning        text not null,
    node           text not null,         -- JSON of plan::NodePlan, without secrets
    document       text not null          -- the client's request; UpdateTrainingJob replaces it
) strict;

create table job_tag (
    arn      text not null,
    key      text not null,
    value    text not null,
    position integer not null,            -- order of arrival
    primary key (arn, key)
) strict, without rowid;

-- Values of the service itself: the secret that agent tokens and page tokens are made with.
create table job_setting (
    name  text primary key,
    value text not null
) strict, without rowid;
