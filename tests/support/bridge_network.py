"""Machines that all reach each other: network namespaces on one bridge. Needs root.

Any of them can be cut off, as a switch does that loses a port: silently, for both sides.
"""

from networks import Namespace


class BridgeNetwork:
    def __init__(self, machines):
        self.switch = Namespace()
        self.machines = [Namespace() for _ in range(machines)]
        self.switch.run("ip", "link", "add", "name", "bridge", "type", "bridge")
        self.switch.run("ip", "link", "set", "bridge", "up")
        for i, machine in enumerate(self.machines):
            self.switch.run("ip", "link", "add", "name", f"m{i}", "type", "veth", "peer", "name",
                            "eth0", "netns", str(machine.holder.pid))
            self.switch.run("ip", "link", "set", f"m{i}", "master", "bridge", "up")
            machine.run("ip", "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            machine.run("ip", "link", "set", "eth0", "up")

    def address(self, i):
        return f"10.98.0.{i + 1}"

    def on_machine(self, i, command):
        return self.machines[i].command(*command)

    def cut(self, i):
        self.switch.run("ip", "link", "set", f"m{i}", "down")

    def heal(self, i):
        self.switch.run("ip", "link", "set", f"m{i}", "up")

    def close(self):
        for namespace in (*self.machines, self.switch):
            namespace.close()
