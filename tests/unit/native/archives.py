"""Small .tar.gz files with any members, good and evil."""

import io
import tarfile


def write_archive(path, members):
    """Write members: bytes are files, (type, link target) is anything else."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content
                archive.addfile(member)
    return path
