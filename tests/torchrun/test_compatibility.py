"""What a program, a log scraper and an outer scheduler can notice of the launcher is the same under
torchrun 2.13 and under ours. Differences that are meant are listed here and nowhere else."""

import os
import re
import socket
import unittest

from harness import HERE, OURS, TORCHRUN, Case, both, normal, start

# Ours says where it differs on purpose (docs/reference/run.md).
DIFFERENT = {
    "MASTER_ADDR",  # a literal address: compared by what it resolves to
    "MASTER_PORT",  # leased anew for every generation
    "TORCHELASTIC_USE_AGENT_STORE",  # rank 0's worker hosts the store unless --agent-store
}
EXTRA = {"NCCL_ASYNC_ERROR_HANDLING"}  # the spelling of PyTorch 1.x beside the new one

WORKER = str(HERE / "worker.py")
TWO = ("--nproc-per-node", "2")
LOGS = ("--log-dir", "{dir}/logs")
# torchrun ignores what it does not know. A machine that is busy with builds is not a lost node.
PATIENT = ("--rdzv-conf", "lease=30,fence=40")


def script(*words):
    return (WORKER, *words)


CASES = {
    "plain": Case(flags=TWO + LOGS, script=script("dump", "--x=${local_rank}/$local_rank", "--", "-r")),
    "streams": Case(
        flags=("--nproc_per_node=3", "-r", "0:1", "-t", "1:3,2:1", "--role", "trainer", *LOGS,
               "--duplicate-stdout-filters", "apple,,pie,10%", "--duplicate_stderr_filters", "zzz"),
        script=script("say")),
    "template": Case(
        flags=("--nproc-per-node=2", "-t3", "--local-ranks-filter", "1", "--rdzv-id", "job",
               "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *LOGS),
        env=(("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} ${local_rank} ${rank} $x $$>"),),
        script=script("dump", "say")),
    "hidden": Case(
        flags=(*TWO, "-t", "1:1", "--local_ranks_filter=1", *LOGS), script=script("say")),
    "variables": Case(
        flags=("--role", "cli", *LOGS),
        env=(("PET_NPROC_PER_NODE", "2"), ("PET_ROLE", "variable"), ("PET_TEE", "1"),
             ("PET_MAX_RESTARTS", "4"), ("PET_STANDALONE", "1"), ("PET_RDZV_ID", "ignored"),
             ("PET_NO_PYTHON", "0"), ("OMP_NUM_THREADS", "7"), ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")),
        script=script("dump", "say")),
    "module": Case(flags=("--standalone", "-m", *LOGS), script=("worker", "dump", "-m", "x")),
    "no_python": Case(
        flags=(*TWO, "--no-python"),
        script=("sh", "-c", 'echo "[\\"$0\\", $RANK, $LOCAL_RANK]" > "$COMPAT_OUT/shell.$RANK.json"',
                "zero-${local_rank}")),
    "run_path": Case(flags=("--run-path", *LOGS), script=script("dump", "a")),
    "virtual": Case(
        flags=(*TWO, "--virtual-local-rank"), env=(("CUDA_VISIBLE_DEVICES", "4, 7"),)),
    "recorded": Case(
        flags=(*TWO, *LOGS), env=(("TORCHELASTIC_ERROR_FILE", "{dir}/reply.json"),),
        script=script("error=1:dict", "fail=1:3", "wait")),
    "text": Case(
        flags=LOGS, env=(("TORCHELASTIC_ERROR_FILE", "{dir}/reply.json"),),
        script=script("error=0:text", "fail=0:1")),
    "killed": Case(flags=("--max-restarts=1", *LOGS), script=script("dump", "kill=0:SIGSEGV")),
    "exited": Case(script=script("fail=0:77")),
    "missing": Case(flags=("--no-python",), script=("/nonexistent/program",)),
    "restarted": Case(
        flags=("--max-restarts", "2", "-r", "1", *LOGS), script=script("dump", "say", "until=2")),
    "unknown": Case(flags=("--no-such-flag",)),
    "sigterm": Case(
        flags=LOGS, script=script("trap=SIGTERM", "child", "wait"), send="SIGTERM"),
    "sigint": Case(script=script("trap=SIGINT,SIGTERM", "wait"), send="SIGINT"),
    "sighup": Case(flags=TWO, script=script("trap=SIGHUP,SIGTERM", "wait"), send="SIGHUP", workers=2),
    "stubborn": Case(
        flags=("--shutdown-timeout", "1"), script=script("ignore=SIGTERM", "wait"), send="SIGTERM"),
    "static": Case(
        flags=(*TWO, "--nnodes=2", "--master-port={port}", *PATIENT),
        node_flags=(("--node-rank=0",), ("--node_rank", "1"))),
    "c10d": Case(
        flags=("--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}",
               "--rdzv-id=job", *PATIENT),
        node_flags=((), ()), script=(str(HERE / "collective.py"),)),
}


def setUpModule():
    if os.environ.get("COMPAT_ALL"):
        for case in CASES.values():
            start(case)


def marked(text):
    """The workers' own lines by whose they are: order between workers is not defined."""
    lines = {}
    for line in text.split("\n"):
        found = re.search(r"w(\d): ", line)
        if found:
            lines.setdefault(found.group(1), []).append(line)
    return lines


def summary(text, folder):
    _, _, found = text.rpartition("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
    # What a launcher says after the summary is not part of it.
    lines = found.split("\n")
    bars = [i for i, line in enumerate(lines) if line and set(line) == {"="}]
    found = "\n".join(lines[: bars[-1] + 1]) if bars else found
    found = re.sub(r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", "<TIME>", found)
    found = re.sub(r"(pid: |PID )\d+", r"\1<PID>", found)
    # Bars are as wide as the longest line, which may hold a pid of one digit more.
    found = re.sub(r"(?m)^([=-])\1{20,}$", r"\1\1\1", found)
    return normal(found, folder)


class Compatibility(unittest.TestCase):
    maxDiff = 4000

    def results(self, name):
        (reference, self.reference_folder), (subject, self.folder) = both(CASES[name])
        self.assertEqual([n.code for n in reference.nodes], [n.code for n in subject.nodes],
                         f"exit codes; ours said:\n{subject.node.err[-3000:]}")
        return reference, subject

    def check_environment(self, reference, subject):
        wanted = {k: normal(v, self.reference_folder) for k, v in reference.items()}
        got = {k: normal(v, self.folder) for k, v in subject.items()
               if k not in EXTRA and not k.startswith("TRAINYARD_")}
        for name in DIFFERENT & wanted.keys():
            self.assertIn(name, got)
        self.assertTrue(got["MASTER_PORT"].isdigit())
        resolved = {socket.gethostbyname(env["MASTER_ADDR"]) for env in (wanted, got)}
        self.assertEqual(len(resolved), 1, resolved)
        for name in DIFFERENT:
            wanted.pop(name, None)
            got.pop(name, None)
        self.assertEqual(wanted, got)

    def check_dumps(self, reference, subject, count):
        dumps = {name for name in reference.left if name.startswith("dump.")}
        self.assertEqual(dumps, {name for name in subject.left if name.startswith("dump.")})
        self.assertEqual(len(dumps), count)
        for name in sorted(dumps):
            wanted, got = dict(reference.left[name]), dict(subject.left[name])
            self.check_environment(wanted.pop("environment"), got.pop("environment"))
            self.assertEqual(wanted, got)

    def check_streams(self, reference, subject):
        for wanted, got in zip(reference.nodes, subject.nodes):
            self.assertEqual(marked(wanted.out), marked(got.out))
            self.assertEqual(marked(wanted.err), marked(got.err))

    def check_logs(self, reference, subject):
        def comparable(result):
            return {name: sorted(text.split("\n")) if "filtered" in name else text
                    for name, text in result.logs.items()
                    if not name.startswith("<RUN>/checkpoint")}
        self.assertEqual(comparable(reference), comparable(subject))

    def check_summary(self, reference, subject):
        wanted = summary(reference.node.err, self.reference_folder)
        self.assertIn("FAILED", wanted)
        self.assertEqual(wanted, summary(subject.node.err, self.folder))

    def test_workers_see_the_same_environment_arguments_and_process_state(self):
        reference, subject = self.results("plain")
        self.check_dumps(reference, subject, 2)
        self.check_logs(reference, subject)
        self.assertEqual(reference.left["dump.1.0"]["arguments"][1:], ["--x=1/1", "--", "-r"])

    def test_the_warning_about_threads_has_the_same_text(self):
        texts = []
        for result in self.results("plain"):
            lines = [re.sub(r"^W\d{4} .*?\] ", "", line) for line in result.node.err.split("\n")]
            texts.append([line for line in lines if "OMP_NUM_THREADS" in line or "****" in line])
        self.assertEqual(len(texts[0]), 3)
        self.assertEqual(*texts)

    def test_libraries_recognise_the_environment(self):
        """By the variables that Lightning, Accelerate and Transformers look at."""
        for result in self.results("plain"):
            env = result.left["dump.1.0"]["environment"]
            lightning = {"TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE",
                         "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
            self.assertLessEqual(lightning, env.keys())
            self.assertEqual((env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]), ("1", "1", "2"))
            self.assertIn(env["TORCHELASTIC_USE_AGENT_STORE"], ("True", "False"))

    def test_redirects_tee_and_filters(self):
        reference, subject = self.results("streams")
        self.assertTrue(any("filtered_stdout" in name for name in reference.logs))
        self.check_streams(reference, subject)
        self.check_logs(reference, subject)

    def test_prefix_template_and_ranks_filter(self):
        reference, subject = self.results("template")
        self.assertIn("<default 1 1 $x $>", reference.node.out)
        self.check_streams(reference, subject)
        self.check_logs(reference, subject)
        self.check_dumps(reference, subject, 2)

    def test_a_filtered_rank_without_files_is_silent(self):
        reference, subject = self.results("hidden")
        self.check_streams(reference, subject)
        self.check_logs(reference, subject)

    def test_variables_are_defaults_and_the_command_line_wins(self):
        reference, subject = self.results("variables")
        self.assertEqual(reference.left["dump.1.0"]["environment"]["ROLE_NAME"], "cli")
        self.check_dumps(reference, subject, 2)
        self.check_streams(reference, subject)
        self.check_logs(reference, subject)

    def test_module_and_standalone(self):
        self.check_dumps(*self.results("module"), 1)

    def test_programs_that_are_not_python(self):
        reference, subject = self.results("no_python")
        self.assertEqual(reference.left["shell.1"], ["zero-1", 1, 1])
        self.assertEqual(reference.left, subject.left)

    def test_run_path(self):
        (reference, subject) = self.results("run_path")
        for result in (reference, subject):
            dump = result.left["dump.0.0"]
            self.assertEqual((dump["arguments"], dump["name"]), (["dump", "a"], "__main__"))
            # torchrun runs it inside its own multiprocessing child, which is not as clean as a program.
            for name in ("unbuffered", "blocked", "descriptors", "group"):
                dump.pop(name)
        self.check_dumps(reference, subject, 1)

    def test_virtual_local_ranks(self):
        reference, subject = self.results("virtual")
        env = reference.left["dump.1.0"]["environment"]
        self.assertEqual((env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"]), ("0", "7"))
        self.check_dumps(reference, subject, 2)

    def test_a_recorded_exception_reaches_the_summary_and_the_reply_file(self):
        reference, subject = self.results("recorded")
        self.check_summary(reference, subject)
        for result in (reference, subject):
            result.reply["message"]["extraInfo"].pop("timestamp")
            for text in list(result.logs):
                if text.endswith("error.json"):
                    result.logs[text] = re.sub(r"\d{10}", "<TIME>", result.logs[text])
        self.assertEqual(reference.reply["message"]["errorCode"], 3)
        self.assertEqual(reference.reply, subject.reply)
        self.check_logs(reference, subject)

    def test_a_plain_message_reaches_the_summary_and_the_reply_file(self):
        reference, subject = self.results("text")
        self.check_summary(reference, subject)
        self.assertEqual(reference.reply, subject.reply)

    def test_a_signal_and_an_exit_code_in_the_summary(self):
        for name in ("killed", "exited"):
            with self.subTest(name):
                self.check_summary(*self.results(name))

    def test_the_last_failure_is_shown_when_the_restarts_are_used_up(self):
        reference, subject = self.results("killed")
        self.assertIn("<RUN>/attempt_1/0", reference.logs)
        self.check_logs(reference, subject)
        self.check_dumps(reference, subject, 2)

    def test_a_program_that_cannot_be_started_and_an_unknown_flag(self):
        self.assertEqual(self.results("missing")[0].node.code, 1)
        reference, subject = self.results("unknown")
        self.assertEqual(reference.node.code, 2)
        for result in (reference, subject):
            self.assertIn("error: unrecognized arguments: --no-such-flag", result.node.err)

    def test_restarts_count_and_keep_their_folders(self):
        reference, subject = self.results("restarted")
        self.check_dumps(reference, subject, 3)
        self.check_logs(reference, subject)

    def test_signals_are_passed_on(self):
        for name, count in (("sigterm", 1), ("sigint", 1), ("sighup", 2)):
            with self.subTest(name):
                reference, subject = self.results(name)
                signals = {k: v for k, v in reference.left.items() if k.startswith("signal.")}
                self.assertEqual(len(signals), count)
                self.assertEqual(signals, {k: v for k, v in subject.left.items()
                                           if k.startswith("signal.")})
                self.assertEqual(reference.node.code, 1)

    def test_nothing_outlives_the_launcher(self):
        _, subject = self.results("sigterm")
        if OURS != TORCHRUN:  # there the child of a worker may live on
            self.assertEqual(subject.survivors, [])

    def test_a_worker_that_ignores_the_signal_is_killed_after_the_timeout(self):
        for result, launcher in zip(self.results("stubborn"), (TORCHRUN, OURS)):
            self.assertGreater(result.ended_after, 0.9, launcher)
            self.assertLess(result.ended_after, 28, launcher)  # not the 30 s of the default

    def test_two_static_nodes(self):
        self.check_dumps(*self.results("static"), 4)

    def test_two_c10d_nodes_reduce_over_gloo(self):
        reference, subject = self.results("c10d")
        self.assertEqual(reference.left["sum.1"], [3.0, 2, True, "1", "0"])
        self.assertEqual(reference.left, subject.left)


if __name__ == "__main__":
    unittest.main()
