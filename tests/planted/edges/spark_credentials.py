"""Mistakes about who a query of Spark is: connections of somebody else, and secrets that travel."""

from __future__ import annotations

from onceq.cli import spark, spark_loading
from onceq.client import credentials
from onceq.spark import connections, data_source
from onceq.spark.land import replay, run
from onceq.spark.sink import task, writer
from onceq.spark.source import access, queue_matching, reader
from tests.planted.planted import Planted, edited

FILES = "tests/unit/spark/test_connections_credentials.py::test_"
JOBS = "tests/unit/cli/test_spark_loading.py::test_"
SOURCE = FILES + "every_connection_of_a_source_is_the_querys"
SINK = FILES + "every_connection_of_a_sink_is_the_querys"
COMMANDS = FILES + "a_landing_and_a_replay_are_whoever_starts_them"
SHOWS = JOBS + "a_job_shows_the_token_that_the_command_names"
SECRETS = FILES + "a_token_in_the_place_of_a_name_is_refused_and_not_repeated"

PLANTED = (
    Planted(
        "a-connection-for-writing-is-anybodys",
        edited(connections, "(QueueManager, where, credentials)", "(QueueManager, where)"),
        FILES + "connections_are_kept_for_those_they_belong_to",
    ),
    Planted(
        "a-connection-for-reading-is-anybodys",
        edited(
            access,
            "(LazyConnection, where, patience, credentials)",
            "(LazyConnection, where, patience)",
        ),
        FILES + "connections_are_kept_for_those_they_belong_to",
    ),
    Planted(
        "tasks-read-as-nobody",
        edited(
            reader,
            "self._patience, self._credentials)",
            "self._patience, type(self._credentials)())",
        ),
        SOURCE,
    ),
    Planted(
        "batches-are-planned-as-nobody",
        edited(
            reader, "self._options.patience, self._options.credentials)", "self._options.patience)"
        ),
        SOURCE,
    ),
    Planted(
        "streams-are-planned-as-nobody",
        edited(queue_matching, "options.patience, options.credentials)", "options.patience)"),
        SOURCE,
    ),
    Planted(
        "what-travels-forgets-who-it-is",
        edited(
            access,
            "return self.where, self.patience, self.credentials",
            "return self.where, self.patience",
        ),
        FILES + "what_travels_has_names_alone",
    ),
    Planted(
        "a-batch-is-committed-as-nobody",
        edited(writer, "=self._options.credentials)", "=type(self._options.credentials)())"),
        SINK,
    ),
    Planted(
        "tasks-write-as-nobody",
        edited(task, "=options.credentials)", "=type(options.credentials)())"),
        SINK,
    ),
    Planted(
        "a-landing-is-nobodys",
        edited(run, "        **plan.credentials.options(),\n", ""),
        COMMANDS,
    ),
    Planted(
        "a-landing-looks-as-nobody",
        edited(run, "options.patience, options.credentials)", "options.patience)"),
        COMMANDS,
    ),
    Planted(
        "steps-of-a-replay-are-nobodys",
        edited(replay, "            .options(**self._credentials.options())\n", ""),
        FILES + "a_step_of_a_replay_is_written_as_whoever_starts_it",
    ),
    Planted(
        "land-passes-over-the-token-file",
        edited(spark, "proof=not no_proof, credentials=credential_files(),", "proof=not no_proof,"),
        SHOWS,
    ),
    Planted(
        "replay-passes-over-the-token-file",
        edited(
            spark,
            "tell=out.note,\n            credentials=credential_files(),",
            "tell=out.note,\n            credentials=work.FROM_ENVIRONMENT,",
        ),
        SHOWS,
    ),
    Planted(
        "a-relative-name-goes-to-other-folders",
        edited(spark_loading, "str(Path(name).absolute())", "name"),
        SHOWS,
    ),
    Planted(
        "commands-start-spark-before-they-look",
        edited(spark_loading, '    found.check("driver of this job")\n', ""),
        JOBS + "a_file_that_cannot_be_used_is_told_before_spark_starts",
    ),
    Planted(
        "queries-begin-before-the-driver-looks",
        edited(data_source, "    options.credentials.check(DRIVER)\n", ""),
        FILES + "the_driver_reads_them_before_anything_runs",
    ),
    Planted(
        "a-token-is-taken-for-a-name",
        edited(connections, "if is_secret(name):", "if False:"),
        SECRETS,
    ),
    Planted(
        "half-a-token-is-no-secret",
        edited(
            credentials,
            'import PREFIX\n\n    return text.strip().startswith(f"{PREFIX}_")',
            "import read\n\n    return read(text.strip()) is not None",
        ),
        SECRETS,
    ),
    Planted(
        "a-certificate-with-the-key-of-another",
        edited(
            connections,
            "own = (self.certificate, self.key) if",
            "own = (self.certificate, self.key or around.key) if",
        ),
        FILES + "files_for_tls_are_taken_one_by_one_but_key_and_certificate_together",
    ),
    Planted(
        "the-environment-says-nothing-of-authorities",
        edited(connections, "self.authorities or around.authorities", "self.authorities"),
        FILES + "files_for_tls_are_taken_one_by_one_but_key_and_certificate_together",
    ),
    Planted(
        "files-for-tls-are-not-looked-at",
        edited(connections, "if self.authorities or self.certificate:", "if False:"),
        FILES + "what_cannot_be_used_is_refused_at_the_start_with_file_and_cure",
    ),
    Planted(
        "errors-at-the-start-lose-their-code",
        edited(connections, "raise coded(error, place) from None", "raise error"),
        FILES + "what_cannot_be_used_is_refused_at_the_start_with_file_and_cure",
    ),
)
