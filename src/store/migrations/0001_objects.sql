-- Object storage: buckets, the key index, multipart uploads. Written by objects only.

create table bucket (
    id      integer primary key,
    name    text not null unique,
    region  text not null,
    created integer not null             -- epoch milliseconds
) strict;

-- One row per visible object. Small content lies inline in data; the rest in the file named blob.
-- Keys compare bytewise (BINARY), which is the order S3 lists in.
create table object (
    bucket     integer not null references bucket (id),
    key        text not null,
    size       integer not null,
    etag       text not null,
    modified   integer not null,         -- epoch milliseconds
    attributes text not null,            -- JSON: everything given back verbatim
    blob       text,                     -- file name, when data is null
    data       blob,
    primary key (bucket, key),
    check ((blob is null) <> (data is null))
) strict;

create table upload (
    id         text primary key,
    bucket     integer not null references bucket (id),
    key        text not null,
    started    integer not null,
    attributes text not null,
    assembly   text                      -- file shared by parts at their final places, once it has one
) strict;
create index upload_key on upload (bucket, key, id);

create table upload_part (
    upload    text not null references upload (id) on delete cascade,
    number    integer not null,
    size      integer not null,
    etag      text not null,             -- hex md5 of the part
    modified  integer not null,
    checksums text not null,             -- JSON
    blob      text not null,
    offset    integer not null,          -- where in the file it starts
    primary key (upload, number)
) strict, without rowid;

-- Files that are to be removed unless a transaction adopts them: names reserved for uploads under
-- way, and files whose last row is gone. Whatever is named here at start-up is debris.
create table doomed_blob (
    blob text primary key
) strict, without rowid;
