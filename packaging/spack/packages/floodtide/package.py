# SPDX-License-Identifier: Apache-2.0
"""Spack recipe. Not tried: no machine of ours has Spack.

spack repo add packaging/spack
spack dev-build --source-path . floodtide@0.1.0    # in the root of the tree
"""

from spack.package import *


class Floodtide(PythonPackage):
    """Trains networks that segment electron-microscopy volumes, on one machine or under MPI."""

    license("Apache-2.0")
    version("0.1.0")

    variant("onednn", default=True, description="Layers of more than 256 channels by oneDNN")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@1.0:", type="build")
    depends_on("py-pybind11@3.0:", type="build")
    depends_on("eigen@3.4:3", type="build")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("hdf5@1.10: +shared")
    depends_on("mpi")
    depends_on("onednn@3.2: cpu_runtime=omp", when="+onednn")
    depends_on("zlib-api")

    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-h5py@3.10:", type="run")
    depends_on("py-mpi4py@4.1:", type="run")
    depends_on("py-click@8.1:", type="run")
    depends_on("py-tqdm@4.66:", type="run")
    depends_on("py-tomli@2:", type="run", when="^python@:3.10")
    depends_on("py-tomli-w@1.0:", type="run")
    depends_on("py-matplotlib@3.7:", type="run")
    depends_on("py-jinja2@3.1:", type="run")
    depends_on("py-tensorboardx@2.6:", type="run")
    depends_on("py-protobuf@4.21:", type="run")

    conflicts("%gcc@:11", msg="floodtide needs C++20: GCC 12 or newer")

    def setup_build_environment(self, env):
        env.set("MPICXX", self.spec["mpi"].mpicxx)

    def config_settings(self, spec, prefix):
        return {
            "cmake.define.FLOODTIDE_MPI": "ON",
            "cmake.define.FLOODTIDE_ONEDNN": "ON" if spec.satisfies("+onednn") else "OFF",
        }
