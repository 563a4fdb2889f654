# The live service: docker build -t rankloop . && docker run -p 8017:8017 -v rankloop:/store rankloop
FROM python:3.12-slim
# LightGBM needs OpenMP.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY pyproject.toml hatch_build.py README.md LICENSE constraints.txt ./
COPY rankloop rankloop
RUN pip install --no-cache-dir --constraint constraints.txt '.[live]'
RUN useradd --create-home rankloop && mkdir /store && chown rankloop /store
USER rankloop
# Compiled kernels are kept with the store, so that a restart need not compile them again.
ENV NUMBA_CACHE_DIR=/store/.kernels
VOLUME /store
EXPOSE 8017
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8017/healthz')"]
ENTRYPOINT ["rankloop"]
# Other machines are served only if the store has keys: rankloop key /store NAME --scope rank
CMD ["serve", "/store", "--host", "0.0.0.0"]
