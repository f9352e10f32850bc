"""The recipe for Conan 2, built from the clone that holds it: conan create tools/package/conan"""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class Dit(ConanFile):
    name = "dit"
    description = "Pictures and clips from diffusion transformers, on any Vulkan GPU"
    license = "MIT"
    topics = "diffusion", "vulkan", "single-header"
    package_type = "library"
    languages = "C"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "system_vulkan": [True, False]}  # headers of the system's Vulkan
    default_options = {"shared": False, "fPIC": True, "system_vulkan": False}
    implements = "auto_shared_fpic"

    def _clone(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        self.version = re.search(r"#define DIT_VERSION \d+ /\* (\S+) \*/", load(self, os.path.join(self._clone(), "dit.h"))).group(1)

    def export_sources(self):
        for name in ("dit.h", "CMakeLists.txt", "LICENSE"):
            copy(self, name, self._clone(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        if not self.options.system_vulkan:
            self.requires("vulkan-headers/[>=1.3.239]", transitive_headers=True)

    def generate(self):
        CMakeToolchain(self).generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))  # CMakeDeps makes them
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["dit"]
        self.cpp_info.set_property("cmake_file_name", "dit")
        self.cpp_info.set_property("cmake_target_name", "dit::dit")
        self.cpp_info.set_property("pkg_config_name", "dit")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["m", "dl"] if self.settings.os == "Linux" else ["m"]
