"""`legroom jobs`: which jobs are built in?"""

from dataclasses import asdict

from legroom.cli.common import check_data, print_json, speaking
from legroom.cli.options import Data, Debug, Json


def run(data: Data = None, json: Json = False, debug: Debug = False) -> None:
    """Which jobs are built in: their options, number of parameters, and data."""
    with speaking(json=json, debug=debug, resumes=False):
        from legroom import api

        check_data(data)
        workloads = api.jobs(data)
        if json:
            print_json({"jobs": [asdict(workload) for workload in workloads]})
            return
        from legroom.reports.jobs import print_jobs
        from legroom.reports.terminal import PlainConsole

        print_jobs(PlainConsole(), workloads)
