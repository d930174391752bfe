"""What a plan says where no rate can be sought."""

from legroom.errors import OutOfMemory
from legroom.questions.rate.records import GrowTrunk


def test_a_plan_whose_search_for_a_rate_ran_out_of_memory_ends_with_what_else_it_found(tmp_path, planted):
    machine = planted.plant()
    answer = machine.answer

    def without_trunks(request):
        if isinstance(request, GrowTrunk):
            raise OutOfMemory("The job ran out of memory")
        return answer(request)

    machine.answer = without_trunks
    plan = planted.ask(tmp_path, machine)
    assert any("No rate was found at batches of" in each and "ran out of memory" in each for each in plan.not_measured)
    assert plan.recommendations
