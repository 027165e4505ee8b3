"""Authorities and the certificates that they sign, made with openssl, for what speaks TLS in a test."""

import os
import subprocess


class Certificates:
    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def openssl(self, *arguments):
        made = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True,
                              text=True, check=False, timeout=60)
        assert made.returncode == 0, made.stderr

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")

    def certificate(self, name, authority, names):
        """For `names`: "IP:127.0.0.1,DNS:n0"."""
        with open(self.path(f"{name}.ext"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
                     "-CAkey", f"{authority}.key", "-set_serial", "7", "-out", f"{name}.pem",
                     "-extfile", f"{name}.ext")
        os.chmod(self.path(f"{name}.key"), 0o600)

    def flags(self, name, authority="ca"):
        return (f"--tls-cert={self.path(name + '.pem')}", f"--tls-key={self.path(name + '.key')}",
                f"--tls-ca={self.path(authority + '.pem')}")
