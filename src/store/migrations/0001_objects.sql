-- Object storage: buckets, the key index, multipart uploads. Written by objects only.
-- Names are blobs compared bytewise, the order in which S3 lists keys (UTF-8).

create table bucket (
    id      integer primary key,
    name    text not null unique,
    region  text not null,
    created integer not null             -- epoch milliseconds
) strict;

-- One row per visible object. Small content lies inline in data; the rest in the file blobs/<blob>.
create table object (
    bucket     integer not null references bucket (id),
    key        text not null,            -- BINARY collation: bytewise
    size       integer not null,
    etag       text not null,
    modified   integer not null,         -- epoch milliseconds
    attributes text not null,            -- JSON: everything given back verbatim
    blob       text,                     -- file name, when data is null
    data       blob,
    primary key (bucket, key),
    check ((blob is null) <> (data is null))
) strict;

-- Which files are alive: the start-up sweep removes the others.
create unique index object_blob on object (blob) where blob is not null;

create table upload (
    id         text primary key,
    bucket     integer not null references bucket (id),
    key        text not null,
    started    integer not null,
    attributes text not null
) strict;
create index upload_key on upload (bucket, key, id);

create table upload_part (
    upload    text not null references upload (id) on delete cascade,
    number    integer not null,
    size      integer not null,
    etag      text not null,             -- hex md5 of the part
    modified  integer not null,
    checksums text not null,             -- JSON
    blob      text not null unique,
    primary key (upload, number)
) strict, without rowid;
