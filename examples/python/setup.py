"""The package dit_h: dit.py as its __init__.py, and the library of dit.h beside it. A wheel serves every Python 3 of its system."""
import os
import re
import shutil
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOWS = sys.platform == "win32"


def of_clone(name):
    """A file of the clone that has this folder, or of a source distribution, which has it beside setup.py."""
    for folder in (".", "../.."):
        if os.path.exists(os.path.join(HERE, folder, name)):
            return os.path.join(HERE, folder, name)
    sys.exit(f"{name} is neither here nor two folders above: take the whole clone of dit.h, and pip 21.3 or newer")


with open(of_clone("dit.h"), encoding="utf-8") as header:
    VERSION = re.search(r"#define DIT_VERSION \d+ /\* (\S+) \*/", header.read()).group(1)
LIBRARY = "dit.dll" if WINDOWS else "libdit.so." + ".".join(VERSION.split(".")[:2])


class Library(build_ext):
    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")[:-1], LIBRARY)

    def get_export_symbols(self, extension):
        return []  # DIT_API exports them

    def build_extension(self, extension):
        try:
            super().build_extension(extension)
        except CompileError as error:
            raise CompileError(f"{error}\ndit.h needs a C compiler, and Vulkan's headers, 1.3.239 or newer: libvulkan-dev under "
                               "Debian and Ubuntu, vulkan-headers elsewhere, or VULKAN_SDK with the folder of the Vulkan SDK") from error


class Module(build_py):
    files = {"__init__.py": lambda: os.path.join(HERE, "dit.py"), "py.typed": lambda: os.devnull, "LICENSE": lambda: of_clone("LICENSE")}

    def run(self):
        if self.editable_mode:
            sys.exit("dit-h cannot be installed with -e: use PYTHONPATH and DIT_LIBRARY, or install it anew after each change")
        folder = os.path.join(self.build_lib, "dit_h")
        shutil.rmtree(folder, ignore_errors=True)  # of another build
        os.makedirs(folder)
        for name, origin in self.files.items():
            shutil.copyfile(origin(), os.path.join(folder, name))

    def get_source_files(self):
        return ["dit.py"]

    def get_outputs(self, include_bytecode=True):
        return [os.path.join(self.build_lib, "dit_h", name) for name in self.files]


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]  # the library calls nothing of Python's


class Sources(sdist):
    def make_release_tree(self, folder, files):
        super().make_release_tree(folder, files)
        for name in ("dit.h", "LICENSE"):
            shutil.copyfile(of_clone(name), os.path.join(folder, name))


library = Extension(
    "dit_h.libdit", ["dit.c"], depends=[of_clone("dit.h")],
    include_dirs=[os.path.dirname(of_clone("dit.h"))] + [os.path.join(sdk, "include") for sdk in [os.environ.get("VULKAN_SDK")] if sdk],
    define_macros=[("DIT_API", "__declspec(dllexport)" if WINDOWS else '__attribute__((visibility("default")))')],
    libraries=[] if WINDOWS else ["m", "dl", "pthread"] if sys.platform == "linux" else ["m"],
    extra_compile_args=["/O2"] if WINDOWS else ["-std=gnu99", "-O2", "-g0", "-fvisibility=hidden", "-Wno-unused-function"],
    extra_link_args=["-Wl,-soname," + LIBRARY] if sys.platform == "linux" else [])
setup(version=VERSION, license="MIT", packages=["dit_h"], ext_modules=[library],
      cmdclass={"build_ext": Library, "build_py": Module, "bdist_wheel": Wheel, "sdist": Sources})
