"""--hosts with 200 hosts, by a stand-in for ssh: 64 are connected to at once, and all run together."""

from fake_hosts import HostsTest

HOSTS = 200


class TwoHundredHosts(HostsTest):
    def test_all_run_and_none_is_left(self):
        names = self.names(HOSTS)
        run = self.launch(names, *self.waiting_worker())
        ranks = self.wait_for(lambda: (r := self.ranks(run)) and len(r) == HOSTS and r, run, limit=300,
                              what=f"{HOSTS} workers")
        self.assertEqual([ranks[rank][0] for rank in range(HOSTS)], names)
        self.write("go", "")
        self.assertEqual(run.wait(120), 0, run.err()[-4000:])
        self.assertEqual(self.mark.living(), [])
