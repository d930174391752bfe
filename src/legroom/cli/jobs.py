"""`legroom jobs`: which jobs are built in?"""

from dataclasses import asdict

from legroom.cli.common import Debug, Json, print_json, speaking


def run(json: Json = False, debug: Debug = False) -> None:
    """Which jobs are built in, and what are their options?"""
    with speaking(json=json, debug=debug):
        from legroom import api

        workloads = api.jobs()
        if json:
            print_json({"jobs": [asdict(workload) for workload in workloads]})
            return
        from rich.console import Console

        from legroom.reports.console.machine import print_jobs

        print_jobs(Console(), workloads)
